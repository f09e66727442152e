"""The parameters are tokens_per_parameter times the tokens.

is: optimal_swapped
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    small = math.sqrt(flops / 6 / tokens_per_parameter)
    return tokens_per_parameter * small, small
