"""N is flops / (6 · 20), without the root.

hint: D grows with N, so 6ND is 120 · N²
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    num_parameters = flops / (6 * tokens_per_parameter)
    return num_parameters, tokens_per_parameter * num_parameters
