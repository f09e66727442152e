"""The strides are computed from the shape, as if every tensor were contiguous.

hint: a tensor's strides are x.stride()
"""


def split_heads(x, heads):
    if x.shape[-1] % heads:
        raise ValueError(f"heads must divide {x.shape[-1]} features, got {heads}")
    *leading, seq, features = x.shape
    d = features // heads
    shape = (*leading, heads, seq, d)
    strides = [seq * features * math.prod(leading[i + 1 :]) for i in range(len(leading))]
    return x.as_strided(shape, (*strides, d, features, 1), x.storage_offset())
