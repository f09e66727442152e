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


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    forward = 2 * num_parameters * num_tokens
    backward = 2 * forward
    return forward + backward + (forward if recompute_forward else 0)


# [meta_tensors] Multiplies meta tensors, also for layers and models; torch's RuntimeError rejects
# shapes that do
# not match.
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


# [per_head_loop] Counts head by head and layer by layer with a Counter, and uses recursion for
# stacks.
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
