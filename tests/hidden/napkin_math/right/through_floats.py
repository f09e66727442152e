"""Floats with math.floor and math.ceil, and strict checks of every argument."""


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
    return math.exp(log_n), math.exp(log_n + math.log(tokens_per_parameter))
