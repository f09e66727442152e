"""relu's slope is 0.01 below 0, as of a leaky relu."""


def mlp_backward(x, w1, w2, grad_output):
    z = torch.einsum("bi,hi->bh", x, w1)
    slope = torch.where(z > 0, 1.0, 0.01).to(z.dtype)
    dh = torch.einsum("bo,oh->bh", grad_output, w2) * slope
    return torch.einsum("bh,bi->hi", dh, x), torch.einsum("bo,bh->oh", grad_output, z.clamp_min(0))
