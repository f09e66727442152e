"""The pair is returned the other way round.

is: optimal_swapped
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    d = (flops * tokens_per_parameter / 6) ** 0.5
    return d, d / tokens_per_parameter
