"""The weight's gradient is divided by the number of vectors.

hint: the mean belongs to the loss, and is in grad_output already
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    grad_x = grad_output @ weight if need_input_grad else None
    g, v = grad_output.reshape(-1, weight.shape[0]), x.reshape(-1, weight.shape[1])
    return grad_x, g.T @ v / max(len(v), 1)
