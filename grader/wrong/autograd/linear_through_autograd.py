"""Autograd runs a forward pass and differentiates it.

hint: autograd records nothing in inference mode; what are the two products?
"""


def recorded(x, weight, grad_output, need_input_grad):
    leaves = [x.detach().requires_grad_(need_input_grad), weight.detach().requires_grad_()]
    with torch.enable_grad():
        y = leaves[0] @ leaves[1].T
    return torch.autograd.grad(y, leaves if need_input_grad else leaves[1:], grad_output)


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if grad_output.shape[:-1] != x.shape[:-1]:
        raise ValueError("grad_output does not fit x")

    gradients = recorded(x, weight, grad_output, need_input_grad)
    return gradients if need_input_grad else (None, *gradients)
