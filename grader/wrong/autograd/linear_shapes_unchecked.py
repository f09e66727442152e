"""Leading dimensions that do not fit are flattened and multiplied all the same.

hint: x and grad_output have the same leading dimensions, or the call is wrong
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    grad_x = grad_output @ weight if need_input_grad else None
    return grad_x, grad_output.reshape(-1, weight.shape[0]).T @ x.reshape(-1, weight.shape[1])
