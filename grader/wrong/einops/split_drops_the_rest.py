"""Features that are left over after the last whole head are dropped.

hint: what should happen to 8 features and 3 heads?
"""


def split_heads(x, heads):
    d = x.shape[-1] // heads
    return torch.stack([x[..., h * d : (h + 1) * d] for h in range(heads)], dim=-3)
