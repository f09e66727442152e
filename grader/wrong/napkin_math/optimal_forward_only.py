"""The budget is spent on 2 FLOPs for each parameter and token.

hint: training takes 6ND
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    num_parameters = math.sqrt(flops / (2 * tokens_per_parameter))
    return num_parameters, tokens_per_parameter * num_parameters
