"""Computes with Fractions whose results are always whole numbers."""

from fractions import Fraction


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    return int(6 * num_parameters * num_tokens * (Fraction(4, 3) if recompute_forward else 1))


def mlp_flops(batch, dims, *, backward=False):
    parameters = sum(math.prod(pair) for pair in itertools.pairwise(dims))
    if not backward:
        return int(Fraction(1, 3) * 6 * parameters * batch)
    share = 1 - Fraction(dims[0] * dims[1], 3 * parameters)
    return int(share * 6 * parameters * batch)
