"""Each matrix is taken as d_out by d_in, as nn.Linear keeps it.

hint: w is heads by d_in by d_out
"""


def per_head_linear(x, w):
    heads, d_in, d_out = w.shape
    if x.shape[-1] != heads * d_in:
        raise ValueError(f"x has {x.shape[-1]} features, not {heads} · {d_in}")
    return torch.einsum("...hi,hoi->...ho", x.unflatten(-1, (heads, d_in)), w).flatten(-2)
