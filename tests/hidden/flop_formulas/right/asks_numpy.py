"""numpy broadcasts the batch; layers and models are sums of calls of matmul_flops."""

import numpy as np


def matmul_flops(a, b):
    a, b = tuple(a), tuple(b)
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2]:
        raise ValueError(f"{a} @ {b}: {left[-1]} is not {right[-2]}")
    batch = np.broadcast_shapes(left[:-2], right[:-2])  # raises a ValueError itself
    return 2 * math.prod(batch) * left[-2] * left[-1] * right[-1]


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    x, dy, weight = (tokens, in_features), (tokens, out_features), (out_features, in_features)
    total = matmul_flops(x, weight[::-1])
    if backward:
        total += matmul_flops(dy[::-1], x)
    if backward and input_grad:
        total += matmul_flops(dy, weight)
    return total


def mlp_flops(batch, dims, *, backward=False):
    products = sum(linear_flops(batch, i, o) for i, o in itertools.pairwise(dims))
    return products * 3 - linear_flops(batch, dims[0], dims[1]) if backward else products


def transformer_forward_flops(config, batch, seq):
    d, heads = config.d_model, config.num_heads
    of_q, of_kv = config.query_width, config.kv_width
    x = (batch, seq, d)
    q = (batch, heads, seq, of_q // heads)
    k_transposed = (batch, heads, of_q // heads, seq)
    probabilities = (batch, heads, seq, seq)
    up, down = (d, config.d_ff), (config.d_ff, d)
    layer = {
        "qkv": matmul_flops(x, (d, of_q)) + 2 * matmul_flops(x, (d, of_kv)),
        "attention_scores": matmul_flops(q, k_transposed),
        "attention_values": matmul_flops(probabilities, q),
        "attention_output": matmul_flops((batch, seq, of_q), (of_q, d)),
        "ffn": (config.active_experts + config.shared_experts)
        * (
            (1 + config.gated_ffn) * matmul_flops(x, up)
            + matmul_flops((batch, seq, config.d_ff), down)
        ),
    }
    parts = {name: config.num_layers * flops for name, flops in layer.items()}
    return {**parts, "lm_head": matmul_flops(x, (d, config.vocab_size))}
