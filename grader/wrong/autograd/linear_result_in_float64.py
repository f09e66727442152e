"""Gradients are computed in float64, and stay float64 whatever the inputs were.

hint: a gradient has the dtype of what it belongs to
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")
    x, weight, grad_output = x.double(), weight.double(), grad_output.double()
    grad_x = grad_output @ weight if need_input_grad else None
    return grad_x, grad_output.reshape(-1, weight.shape[0]).T @ x.reshape(-1, weight.shape[1])
