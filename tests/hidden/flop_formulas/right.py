# Right solutions of flop_formulas in other styles; see grader/solutions/fragments.py.

# [by_cases] Treats each number of dimensions as a separate case.
def matmul_flops(a, b):
    a, b = list(a), list(b)
    if len(a) == 1 and len(b) == 1:
        if a != b:
            raise ValueError("vectors of different lengths")
        return a[0] + b[0]
    if len(a) == 1:
        return matmul_flops([1] + a, b)
    if len(b) == 1:
        return matmul_flops(a, b + [1])
    if a[-1] != b[-2]:
        raise ValueError("matrices that do not fit")
    if len(a) == 2 and len(b) == 2:
        return 2 * a[0] * a[1] * b[1]
    while len(a) < len(b):
        a = [1] + a
    while len(b) < len(a):
        b = [1] + b
    if a[0] == b[0]:
        return a[0] * matmul_flops(a[1:], b[1:])
    if a[0] == 1:
        return b[0] * matmul_flops(a[1:], b[1:])
    if b[0] == 1:
        return a[0] * matmul_flops(a[1:], b[1:])
    raise ValueError("batches that do not broadcast")


# [meta_tensors] Multiplies meta tensors; torch's RuntimeError rejects shapes that do not match.
def matmul_flops(a, b):
    result = torch.matmul(torch.empty(a, device="meta"), torch.empty(b, device="meta"))
    return 2 * a[-1] * result.numel()


# [per_head_loop] Counts a model head by head and layer by layer with a Counter.
import collections


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
