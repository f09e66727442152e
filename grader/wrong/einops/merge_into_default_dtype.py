"""The result is written into a tensor of the default dtype.

hint: x.new_empty, or dtype=x.dtype
"""


def merge_heads(x):
    *leading, heads, seq, d = x.shape
    out = torch.zeros(*leading, seq, heads * d, device=x.device)
    for h in range(heads):
        out[..., h * d : (h + 1) * d] = x[..., h, :, :]
    return out
