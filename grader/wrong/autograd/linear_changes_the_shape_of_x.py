"""A single vector is made a matrix in place, so the caller's tensors change their shape.

hint: unsqueeze, not unsqueeze_
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    grad_x = grad_output @ weight if need_input_grad else None
    if x.dim() == 1:
        x.unsqueeze_(0)
        grad_output.unsqueeze_(0)
    return grad_x, grad_output.reshape(-1, weight.shape[0]).T @ x.reshape(-1, weight.shape[1])
