"""Computed in log space."""


def softmax(x):
    return (x - x.logsumexp(dim=-1, keepdim=True)).exp()
