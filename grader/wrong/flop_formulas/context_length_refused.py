"""A sequence as long as the context is refused.

hint: at most the context length includes it
"""


def transformer_forward_flops(config, batch, seq):
    if seq >= config.context_length:
        raise ValueError("seq is more than the context length")
    d, head = config.d_model, config.d_model // config.num_heads
    layers = config.num_layers
    return {
        "qkv": layers * 2 * batch * seq * d * 3 * d,
        "attention_scores": layers * batch * config.num_heads * 2 * seq * head * seq,
        "attention_values": layers * batch * config.num_heads * 2 * seq * seq * head,
        "attention_output": layers * 2 * batch * seq * d * d,
        "ffn": layers * (3 if config.gated_ffn else 2) * 2 * batch * seq * d * config.d_ff,
        "lm_head": 2 * batch * seq * d * config.vocab_size,
    }
