"""need_input_grad is ignored.

hint: None where the gradient of x is not needed
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    return grad_output @ weight, grad_output.reshape(-1, weight.shape[0]).T @ x.reshape(-1, weight.shape[1])
