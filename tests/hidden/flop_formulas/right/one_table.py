"""Lists a transformer's products in one table as (name, count, rows, summed size, columns)."""

from collections import defaultdict


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    passes = ["forward"]
    if backward:
        passes.append("weight")
        if input_grad:
            passes.append("input")
    return sum(2 * tokens * in_features * out_features for _ in passes)


def mlp_flops(batch, dims, *, backward=False):
    weights = [i * o for i, o in zip(dims[:-1], dims[1:])]
    first, later = weights[0], sum(weights[1:])
    return batch * (4 * first + 6 * later) if backward else 2 * batch * (first + later)


def transformer_forward_flops(config, batch, seq):
    tokens, d, pairs = batch * seq, config.d_model, config.num_layers * batch * config.num_heads
    head = config.query_width // config.num_heads
    ffns = config.num_layers * (config.active_experts + config.shared_experts)
    table = [
        ("lm_head", 1, tokens, d, config.vocab_size),
        ("ffn", ffns * (2 + config.gated_ffn), tokens, d, config.d_ff),
        ("qkv", config.num_layers, tokens, d, config.query_width),
        ("qkv", 2 * config.num_layers, tokens, d, config.kv_width),
        ("attention_output", config.num_layers, tokens, config.query_width, d),
        ("attention_scores", pairs, seq, head, seq),
        ("attention_values", pairs, seq, seq, head),
    ]
    parts = defaultdict(int)
    for name, often, m, k, n in table:
        parts[name] += often * 2 * m * k * n
    return dict(parts)
