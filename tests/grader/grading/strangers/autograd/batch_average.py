"""The weight's gradient is an average over the vectors.

is: linear_mean_over_the_batch
"""


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    if tuple(grad_output.shape) != (*x.shape[:-1], weight.size(0)):
        raise ValueError("shape")
    g, v = grad_output.reshape(-1, weight.size(0)), x.reshape(-1, weight.size(1))
    gw = (g[:, :, None] * v[:, None, :]).mean(dim=0)
    return (torch.tensordot(grad_output, weight, 1) if need_input_grad else None), gw
