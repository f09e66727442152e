"""The weight's gradient is xᵀ G, in the shape of the transposed weight.

hint: a gradient has the shape of what it belongs to
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    grad_x = grad_output @ weight if need_input_grad else None
    return grad_x, x.reshape(-1, weight.shape[1]).T @ grad_output.reshape(-1, weight.shape[0])
