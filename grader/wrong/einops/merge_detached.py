"""The numbers of x are taken without their history.

hint: x.data, like x.detach(), cuts the graph
"""


def merge_heads(x):
    return rearrange(x.data, "... heads seq d -> ... seq (heads d)")
