"""The weight's gradient is right for two-dimensional x alone.

hint: flatten the leading dimensions first
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    grad_x = grad_output @ weight if need_input_grad else None
    return grad_x, grad_output.mT @ x
