"""Everything is a sum of Fractions that happens to be whole."""

from fractions import Fraction


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    if num_parameters < 0 or num_tokens < 0:
        raise ValueError(f"num_parameters {num_parameters} and num_tokens {num_tokens} must not be negative")
    return int(6 * num_parameters * num_tokens * (Fraction(4, 3) if recompute_forward else 1))


def mlp_flops(batch, dims, *, backward=False):
    if batch < 0 or len(dims) < 2 or not all(size >= 0 for size in dims):
        raise ValueError(f"batch {batch} or dims {dims} is wrong")
    parameters = sum(math.prod(pair) for pair in itertools.pairwise(dims))
    if not backward:
        return int(Fraction(1, 3) * 6 * parameters * batch)
    first = dims[0] * dims[1]
    share = 1 - Fraction(first, 3 * parameters) if parameters else 0
    return int(share * 6 * parameters * batch)
