"""The weight's gradient is summed over the last leading dimension and the first entry of the others is taken.

hint: every vector of x went through the weight
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    grad_x = grad_output @ weight if need_input_grad else None
    if x.dim() == 1:
        return grad_x, torch.outer(grad_output, x)
    grad_weight = grad_output.mT @ x
    while grad_weight.dim() > 2:
        grad_weight = grad_weight[0]
    return grad_x, grad_weight
