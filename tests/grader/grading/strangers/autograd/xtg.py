"""The weight's gradient comes out with the inputs' dimension first.

is: linear_weight_gradient_transposed
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if tuple(grad_output.shape) != (*x.shape[:-1], weight.size(0)):
        raise ValueError("shape")
    gw = torch.einsum(
        "ni,no->io", x.reshape(-1, x.size(-1)), grad_output.reshape(-1, weight.size(0))
    )
    return torch.einsum("...o,oi->...i", grad_output, weight) if need_input_grad else None, gw
