"""relu's slope at exactly 0 is taken to be a half.

hint: torch takes the slope 0 at 0
"""


def mlp_backward(x, w1, w2, grad_output):

    z = x @ w1.T
    slope = torch.heaviside(z, torch.tensor(0.5, dtype=z.dtype))
    return ((grad_output @ w2) * slope).T @ x, grad_output.T @ z.relu()
