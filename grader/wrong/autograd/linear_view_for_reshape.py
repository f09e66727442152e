"""Leading dimensions are flattened with view, which fails where x is not contiguous.

hint: reshape copies where it has to
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    grad_x = grad_output @ weight if need_input_grad else None
    return grad_x, grad_output.view(-1, weight.shape[0]).T @ x.view(-1, weight.shape[1])
