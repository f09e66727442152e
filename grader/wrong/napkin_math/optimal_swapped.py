"""Tokens come before parameters.

hint: (N, D), in this order
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    num_parameters = math.sqrt(flops / (6 * tokens_per_parameter))
    return tokens_per_parameter * num_parameters, num_parameters
