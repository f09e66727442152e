# Right solutions of napkin_math in other styles; see grader/solutions/fragments.py.

# [integers_only] Counts nodes with //, and divides once for days.
def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError("mfu")
    if dtype not in hw.peak_flops:
        raise ValueError("dtype")
    return (num_parameters * num_tokens) / (14400 * num_devices * (mfu * hw.peak_flops[dtype]))


def cheapest_cluster(num_parameters, num_tokens, recipe, dtype, mfu, max_days, offers):
    def needed(offer):
        size = num_parameters * bytes_per_parameter(recipe)
        flops = 6 * num_parameters * num_tokens
        each = mfu * offer.hw.peak_flops[dtype] * 86_400 * max_days
        return max(-(-size // offer.hw.memory_bytes), int(-(-flops // each)))

    def nodes(offer):
        return -(-needed(offer) // offer.devices_per_node)

    able = [o for o in offers if dtype in o.hw.peak_flops and nodes(o) <= o.nodes]
    if not able:
        return None
    best = min(able, key=lambda offer: offer.dollars / offer.hw.peak_flops[dtype])
    return [best, nodes(best) * best.devices_per_node]


# [student_style] Tries one node more at a time, and takes powers instead of roots.
def compute_optimal(flops, tokens_per_parameter=20.0):
    n = (flops / 6 / tokens_per_parameter) ** 0.5
    d = flops / 6 / n if flops else 0.0
    return n, d


def cheapest_cluster(num_parameters, num_tokens, recipe, dtype, mfu, max_days, offers):
    results = []
    for i, offer in enumerate(offers):
        if dtype not in offer.hw.peak_flops:
            continue
        for num_nodes in range(1, offer.nodes + 1):
            num_devices = num_nodes * offer.devices_per_node
            memory = num_devices * offer.hw.memory_bytes
            if num_parameters * bytes_per_parameter(recipe) > memory:
                continue
            days = training_days(num_parameters, num_tokens, offer.hw, dtype, num_devices, mfu)
            if days > max_days:
                continue
            hours = days * 24
            results.append((hours * num_devices * offer.dollars, i, num_devices))
            break
    if len(results) == 0:
        return None
    _, i, num_devices = sorted(results)[0]
    return offers[i], num_devices


# [through_floats] Floats with math.floor and math.ceil, strict checks of every argument, and a
# NamedTuple.
from typing import NamedTuple


class Plan(NamedTuple):
    parameters: float
    tokens: float


def max_parameters(memory_bytes, recipe, reserve=0.0):
    if not 0.0 <= reserve < 1.0:
        raise ValueError(f"reserve {reserve} is not in [0, 1)")
    return math.floor(memory_bytes * (1 - reserve) / bytes_per_parameter(recipe))


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    if not 0.0 <= reserve < 1.0 or num_parameters < 1:
        raise ValueError(f"reserve {reserve} is not in [0, 1)")
    return math.ceil(num_parameters * bytes_per_parameter(recipe) / (memory_bytes * (1 - reserve)))


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu <= 0 or mfu > 1 or num_devices < 1:
        raise ValueError(f"mfu {mfu}, {num_devices} devices")
    seconds = 6.0 * num_parameters * num_tokens / (num_devices * hw.peak_flops[dtype] * mfu)
    return seconds / 60 / 60 / 24


def compute_optimal(flops, tokens_per_parameter=20.0):
    if not flops > 0 or not tokens_per_parameter > 0:
        raise ValueError("flops and tokens_per_parameter must be above 0")
    log_n = 0.5 * (math.log(flops) - math.log(6.0) - math.log(tokens_per_parameter))
    return Plan(math.exp(log_n), math.exp(log_n + math.log(tokens_per_parameter)))
