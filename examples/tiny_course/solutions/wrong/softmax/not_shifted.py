"""The scores are not shifted, so that large ones overflow.

hint: take the largest score away first
price: half of the problem is about this
"""


def softmax(x):
    return x.exp() / x.exp().sum(dim=-1, keepdim=True)
