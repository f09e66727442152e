"""The sum runs over the first dimension.

hint: dim=-1
price: it is all that is asked
"""


def softmax(x):
    shifted = (x - x.amax(dim=0, keepdim=True)).exp()
    return shifted / shifted.sum(dim=0, keepdim=True)
