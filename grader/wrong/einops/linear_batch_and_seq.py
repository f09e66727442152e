"""Exactly batch and sequence are taken as leading dimensions.

hint: `...` stands for any number of leading dimensions, none as well
"""


def per_head_linear(x, w):
    heads, d_in, d_out = w.shape
    if x.shape[-1] != heads * d_in:
        raise ValueError(f"x has {x.shape[-1]} features, not {heads} · {d_in}")
    b, seq, _ = x.shape
    return torch.einsum("bshi,hio->bsho", x.reshape(b, seq, heads, d_in), w).reshape(b, seq, heads * d_out)
