# Right solutions of softmax in other styles; see grader/solutions/fragments.py.


# [logsumexp] Computed in log space.
def softmax(x):
    return (x - x.logsumexp(dim=-1, keepdim=True)).exp()
