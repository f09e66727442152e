"""A negative budget ends in math's own error.

hint: a budget that is not above 0 is a ValueError that names flops
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    num_parameters = math.sqrt(flops / (6 * tokens_per_parameter))
    return num_parameters, tokens_per_parameter * num_parameters
