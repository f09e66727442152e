"""A gated FFN is counted as two matrices.

hint: gate, up and down are three
"""


def transformer_forward_flops(config, batch, seq):
    d, head = config.d_model, config.d_model // config.num_heads
    layers = config.num_layers
    return {
        "qkv": layers * 2 * batch * seq * d * 3 * d,
        "attention_scores": layers * batch * config.num_heads * 2 * seq * head * seq,
        "attention_values": layers * batch * config.num_heads * 2 * seq * seq * head,
        "attention_output": layers * 2 * batch * seq * d * d,
        "ffn": layers * 2 * 2 * batch * seq * d * config.d_ff,
        "lm_head": 2 * batch * seq * d * config.vocab_size,
    }
