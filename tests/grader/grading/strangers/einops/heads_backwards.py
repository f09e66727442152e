"""The last slice of the features goes to head 0."""


def split_heads(x, heads):
    if x.size(-1) % heads:
        raise ValueError("heads does not divide the features")
    return torch.stack(x.chunk(heads, dim=-1)[::-1], dim=-3)
