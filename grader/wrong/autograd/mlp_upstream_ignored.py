"""The gradient is that of the sum of the outputs, whatever comes from above.

hint: what is grad_output for?
"""


def mlp_backward(x, w1, w2, grad_output):

    hidden = (x @ w1.T).relu()
    ones = torch.ones_like(grad_output)
    return ((ones @ w2) * (hidden > 0)).T @ x, ones.T @ hidden
