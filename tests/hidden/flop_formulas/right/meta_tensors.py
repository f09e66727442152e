"""Multiplies meta tensors, also for layers and models; torch's RuntimeError rejects shapes that do
not match.
"""


def matmul_flops(a, b):
    result = torch.matmul(torch.empty(a, device="meta"), torch.empty(b, device="meta"))
    return 2 * a[-1] * result.numel()


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    products = 1 + backward + (backward and input_grad)
    return products * matmul_flops((tokens, in_features), (in_features, out_features))


def transformer_forward_flops(config, batch, seq):
    tokens, d, heads = (batch, seq), config.d_model, config.num_heads
    width = config.query_width // heads
    queries, scores = (batch, heads, seq, width), (batch, heads, seq, seq)

    ffns = config.active_experts + config.shared_experts

    def layer(columns):
        return matmul_flops((*tokens, d), (d, columns))

    of_a_block = {
        "qkv": layer(config.query_width + config.kv_width * 2),
        "attention_scores": matmul_flops(queries, (batch, heads, width, seq)),
        "attention_values": matmul_flops(scores, queries),
        "attention_output": layer(config.query_width),
        "ffn": layer(config.d_ff) * (3 if config.gated_ffn else 2) * ffns,
    }
    parts = {part: config.num_layers * flops for part, flops in of_a_block.items()}
    return {**parts, "lm_head": layer(config.vocab_size)}
