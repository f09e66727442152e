"""d_model / num_heads makes every count of attention a float.

hint: // stays an integer
"""


def transformer_forward_flops(config, batch, seq):
    for name, value in {"batch": batch, "seq": seq, **dataclasses.asdict(config)}.items():
        if value < 0:
            raise ValueError(f"{name} must not be negative")
    if config.num_heads == 0 or config.d_model % config.num_heads != 0:
        raise ValueError("num_heads must divide d_model")
    if seq > config.context_length:
        raise ValueError("seq is more than the context length")
    d, head = config.d_model, config.d_model / config.num_heads
    layers = config.num_layers
    return {
        "qkv": layers * 2 * batch * seq * d * 3 * d,
        "attention_scores": int(layers * batch * config.num_heads * 2 * seq * head * seq),
        "attention_values": int(layers * batch * config.num_heads * 2 * seq * seq * head),
        "attention_output": layers * 2 * batch * seq * d * d,
        "ffn": layers * (3 if config.gated_ffn else 2) * 2 * batch * seq * d * config.d_ff,
        "lm_head": 2 * batch * seq * d * config.vocab_size,
    }
