"""A gated FFN is counted as four matrices."""


def transformer_forward_flops(config, batch, seq):
    c, t = config, batch * seq
    att = c.num_layers * 2 * t * seq * c.d_model
    return {
        "qkv": c.num_layers * 6 * t * c.d_model**2,
        "attention_scores": att,
        "attention_values": att,
        "attention_output": c.num_layers * 2 * t * c.d_model**2,
        "ffn": c.num_layers * (8 if c.gated_ffn else 4) * t * c.d_model * c.d_ff,
        "lm_head": 2 * t * c.d_model * c.vocab_size,
    }
