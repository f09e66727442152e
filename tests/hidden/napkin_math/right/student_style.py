"""Goes one step at a time: from seconds to days, layer by layer, with powers instead of roots."""


def bytes_per_parameter(recipe):
    total = 0
    total += torch.empty((), dtype=recipe.parameter).element_size()
    total += torch.empty((), dtype=recipe.gradient).element_size()
    for state in recipe.optimizer_state:
        total += torch.empty((), dtype=state).element_size()
    if recipe.master:
        total += torch.empty((), dtype=recipe.master).element_size()
    return total


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu <= 0 or mfu > 1:
        raise ValueError("mfu must be in (0, 1]")
    try:
        promised = hw.peak_flops[dtype]
    except KeyError:
        raise ValueError(f"dtype {dtype} is not supported") from None
    total_flops = 6 * num_parameters * num_tokens
    seconds = total_flops / (promised * mfu) / num_devices
    return seconds / 60 / 60 / 24


def transformer_parameters(config):
    d, total = config.d_model, config.vocab_size * config.d_model
    for _ in range(config.num_layers):
        total += d * config.query_width  # q
        total += d * config.kv_width * 2  # k and v
        total += config.query_width * d  # o
        for _ffn in range(config.experts + config.shared_experts):
            total += config.d_ff * d  # up
            total += d * config.d_ff  # down
            if config.gated_ffn:
                total += config.d_ff * d
    if not config.tied_embeddings:
        total += d * config.vocab_size
    return total


def compute_optimal(flops, tokens_per_parameter=20.0):
    n = (flops / 6 / tokens_per_parameter) ** 0.5
    d = flops / 6 / n if flops else 0.0
    return n, d


def cheapest_cluster(num_parameters, num_tokens, recipe, dtype, mfu, max_days, offers):
    results = []
    for i, offer in enumerate(offers):
        try:
            offer.hw.peak_flops[dtype]
        except KeyError:
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
