"""Zeros are returned for the gradient of x where it is not asked for."""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if tuple(grad_output.shape) != (*x.shape[:-1], weight.size(0)):
        raise ValueError("shape")
    g, v = grad_output.reshape(-1, weight.size(0)), x.reshape(-1, weight.size(1))
    gx = torch.tensordot(grad_output, weight, 1) if need_input_grad else torch.zeros_like(x)
    return gx, torch.einsum("no,ni->oi", g, v)
