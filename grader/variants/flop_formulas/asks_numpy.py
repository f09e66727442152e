"""numpy broadcasts the batch; layers and models are lists of matmul_flops."""

import numpy as np


def matmul_flops(a, b):
    a, b = tuple(a), tuple(b)
    if not a or not b:
        raise ValueError(f"matmul takes no scalars: {a} @ {b}")
    if any(size < 0 for size in a + b):
        raise ValueError(f"a negative size in {a} @ {b}")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2]:
        raise ValueError(f"{a} @ {b}: {left[-1]} is not {right[-2]}")
    if max((*left[:-2], *right[:-2]), default=0) < 1000:
        batch = np.broadcast_shapes(left[:-2], right[:-2])  # a ValueError of its own
    else:
        batch = torch.broadcast_shapes(left[:-2], right[:-2])
    return 2 * math.prod(batch) * left[-2] * left[-1] * right[-1]


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    if min(tokens, in_features, out_features) < 0:
        raise ValueError(f"tokens {tokens}, in_features {in_features} and out_features {out_features} must not be negative")
    x, dy, weight = (tokens, in_features), (tokens, out_features), (out_features, in_features)
    total = matmul_flops(x, weight[::-1])
    if backward:
        total += matmul_flops(dy[::-1], x)
    if backward and input_grad:
        total += matmul_flops(dy, weight)
    return total


def mlp_flops(batch, dims, *, backward=False):
    if batch < 0:
        raise ValueError(f"batch is {batch}")
    if len(dims) < 2 or any(size < 0 for size in dims):
        raise ValueError(f"dims is {dims}")
    products = sum(linear_flops(batch, i, o) for i, o in itertools.pairwise(dims))
    return products * 3 - linear_flops(batch, dims[0], dims[1]) if backward else products


def transformer_forward_flops(config, batch, seq):
    if batch < 0 or seq < 0 or seq > config.context_length:
        raise ValueError(f"batch {batch}, seq {seq} for a context of {config.context_length}")
    for field in dataclasses.fields(config):
        if getattr(config, field.name) < 0:
            raise ValueError(f"config.{field.name} is negative")
    if config.num_heads == 0 or config.d_model % config.num_heads:
        raise ValueError(f"d_model {config.d_model} is no multiple of num_heads {config.num_heads}")
    d, heads = config.d_model, config.num_heads
    x = (batch, seq, d)
    q = (batch, heads, seq, d // heads)
    k_transposed = (batch, heads, d // heads, seq)
    probabilities = (batch, heads, seq, seq)
    up, down = (d, config.d_ff), (config.d_ff, d)
    layer = {
        "qkv": 3 * matmul_flops(x, (d, d)),
        "attention_scores": matmul_flops(q, k_transposed),
        "attention_values": matmul_flops(probabilities, q),
        "attention_output": matmul_flops(x, (d, d)),
        "ffn": (1 + config.gated_ffn) * matmul_flops(x, up) + matmul_flops((batch, seq, config.d_ff), down),
    }
    parts = {name: config.num_layers * flops for name, flops in layer.items()}
    return {**parts, "lm_head": matmul_flops(x, (d, config.vocab_size))}
