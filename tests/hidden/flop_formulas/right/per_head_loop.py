"""Counts head by head and layer by layer with a Counter, and uses recursion for stacks."""

import collections


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    match (bool(backward), bool(input_grad)):
        case (False, _):
            products = 1
        case (True, False):
            products = 2
        case _:
            products = 3
    return products * 2 * tokens * in_features * out_features


def mlp_flops(batch, dims, *, backward=False, _first=True):
    if len(dims) < 2:
        return 0
    head, *tail = dims
    mine = 2 * batch * head * tail[0]
    mine *= (2 if _first else 3) if backward else 1
    return mine + mlp_flops(batch, tail, backward=backward, _first=False)


def transformer_forward_flops(config, batch, seq):
    counts = collections.Counter()
    for _ in range(config.num_layers):
        for width in (config.query_width, config.kv_width, config.kv_width):
            counts["qkv"] += 2 * batch * seq * config.d_model * width
        for name in ("attention_scores", "attention_values"):
            for _ in range(config.num_heads):
                counts[name] += 2 * batch * seq**2 * (config.query_width // config.num_heads)
        counts["attention_output"] += 2 * batch * seq * config.query_width * config.d_model
        for _ in range(config.active_experts + config.shared_experts):
            counts["ffn"] += 4 * batch * seq * config.d_model * config.d_ff
            if config.gated_ffn:
                counts["ffn"] += 2 * batch * seq * config.d_model * config.d_ff
    counts["lm_head"] = 2 * batch * seq * config.d_model * config.vocab_size
    return counts


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    passes = ["forward", "weights", "inputs"] + ["forward again"] * bool(recompute_forward)
    return sum(2 * num_parameters * num_tokens for _ in passes)
