"""The scores are those of one long sequence, so the batch is squared.

hint: queries meet the keys of their own sequence
"""


def transformer_forward_flops(config, batch, seq):
    d, head = config.d_model, config.d_model // config.num_heads
    layers = config.num_layers
    return {
        "qkv": layers * 2 * batch * seq * d * 3 * d,
        "attention_scores": layers * config.num_heads * 2 * (batch * seq) * head * (batch * seq),
        "attention_values": layers * batch * config.num_heads * 2 * seq * seq * head,
        "attention_output": layers * 2 * batch * seq * d * d,
        "ffn": layers * (3 if config.gated_ffn else 2) * 2 * batch * seq * d * config.d_ff,
        "lm_head": 2 * batch * seq * d * config.vocab_size,
    }
