"""A transformer as a table of (how often, rows, summed over, columns)."""


def checked(value, name):
    if value < 0:
        raise ValueError(f"{name} is {value}, which is below 0")
    return value


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    checked(tokens, "tokens"), checked(in_features, "in_features"), checked(out_features, "out_features")
    passes = ["forward"]
    if backward:
        passes.append("weight")
        if input_grad:
            passes.append("input")
    return sum(2 * tokens * in_features * out_features for _ in passes)


def mlp_flops(batch, dims, *, backward=False):
    checked(batch, "batch")
    if len(dims) < 2:
        raise ValueError("dims has to name an input and an output size")
    weights = [checked(i, "dims") * checked(o, "dims") for i, o in zip(dims[:-1], dims[1:])]
    first, later = weights[0], sum(weights[1:])
    return batch * (4 * first + 6 * later) if backward else 2 * batch * (first + later)


def transformer_forward_flops(config, batch, seq):
    tokens = checked(batch, "batch") * checked(seq, "seq")
    sizes = vars(config)
    for name in sizes:
        checked(sizes[name], name)
    if seq > config.context_length:
        raise ValueError(f"seq is {seq}, but the model ends at {config.context_length}")
    try:
        head, rest = divmod(config.d_model, config.num_heads)
    except ZeroDivisionError:
        raise ValueError("num_heads is 0") from None
    if rest:
        raise ValueError(f"num_heads {config.num_heads} leaves {rest} of d_model over")
    d, pairs = config.d_model, config.num_layers * batch * config.num_heads
    table = [
        ("lm_head", 1, tokens, d, config.vocab_size),
        ("ffn", config.num_layers * (2 + config.gated_ffn), tokens, d, config.d_ff),
        ("qkv", config.num_layers, tokens, d, 3 * d),
        ("attention_output", config.num_layers, tokens, d, d),
        ("attention_scores", pairs, seq, head, seq),
        ("attention_values", pairs, seq, seq, head),
    ]
    return {name: often * 2 * m * k * n for name, often, m, k, n in table}
