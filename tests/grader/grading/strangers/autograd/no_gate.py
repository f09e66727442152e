"""The slope of relu is left out on the way back.

is: mlp_relu_forgotten
"""


def mlp_backward(x, w1, w2, grad_output):
    h = torch.clamp(torch.einsum("bi,hi->bh", x, w1), min=0)
    dh = torch.einsum("bo,oh->bh", grad_output, w2)
    return torch.einsum("bh,bi->hi", dh, x), torch.einsum("bo,bh->oh", grad_output, h)
