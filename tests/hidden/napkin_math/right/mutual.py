"""Devices by asking how many parameters fit, matrix by matrix, Newton's method, a NamedTuple."""

from typing import NamedTuple


class Plan(NamedTuple):
    parameters: float
    tokens: float


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    count = int(num_parameters * bytes_per_parameter(recipe) / (memory_bytes * (1 - reserve)))
    count = max(0, count - 2)
    while max_parameters(count * memory_bytes, recipe, reserve) < num_parameters:
        count += 1
    return count


def transformer_parameters(config):
    v, d, f = config.vocab_size, config.d_model, config.d_ff
    layer = [(d, f), (f, d)] + [(d, f)] * bool(config.gated_ffn)
    layer = layer * (config.experts + config.shared_experts)
    layer += [(d, config.query_width), (d, config.kv_width)] * 2
    matrices = [(v, d)] + layer * config.num_layers + [(d, v)] * (not config.tied_embeddings)
    return sum(math.prod(shape) for shape in matrices)


def compute_optimal(flops, tokens_per_parameter=20.0):
    target = flops / 6 / tokens_per_parameter
    n = target if target > 1 else 1.0
    for _ in range(2000):
        better = (n + target / n) / 2
        if better == n:
            break
        n = better
    return Plan(n, flops / (6 * n))
