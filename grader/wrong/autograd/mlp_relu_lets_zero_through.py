"""relu lets the gradient through where its input is exactly 0.

hint: torch takes the slope 0 at 0: > and not >=
"""


def mlp_backward(x, w1, w2, grad_output):

    z = x @ w1.T
    return ((grad_output @ w2) * (z >= 0)).T @ x, grad_output.T @ z.relu()
