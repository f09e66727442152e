"""The gradient is that of the sum of the outputs, whatever comes from above.

hint: what is grad_output for?
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    ones = torch.ones_like(grad_output)
    grad_x = ones @ weight if need_input_grad else None
    return grad_x, ones.reshape(-1, ones.shape[-1]).T @ x.reshape(-1, x.shape[-1])
