"""Uses Decimals of 60 digits for the root and the days, and returns N and D in a list."""

from decimal import Decimal, localcontext


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}")
    if hw.peak_flops.get(dtype) is None:
        raise ValueError(f"{hw.name}: dtype {dtype}")
    with localcontext() as context:
        context.prec = 60
        speed = Decimal(hw.peak_flops[dtype]) * Decimal(mfu) * num_devices
        return float(Decimal(6 * num_parameters * num_tokens) / speed / 86400)


def transformer_parameters(config):
    d, ff, v = config.d_model, config.d_ff, config.vocab_size
    shapes = [(d, d)] * 4 + [(d, ff), (ff, d)] + [(d, ff)] * config.gated_ffn
    matrices = shapes * config.num_layers + [(v, d)] * (2 - config.tied_embeddings)
    return sum(rows * columns for rows, columns in matrices)


def compute_optimal(flops, tokens_per_parameter=20.0):
    with localcontext() as context:
        context.prec = 60
        tokens = (Decimal(flops) * Decimal(tokens_per_parameter) / 6).sqrt()
        return [float(tokens / Decimal(tokens_per_parameter)), float(tokens)]
