"""Twenty tokens a parameter are taken, whatever is asked for.

hint: is tokens_per_parameter used?
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    _require_positive(flops=flops, tokens_per_parameter=tokens_per_parameter)
    num_parameters = math.sqrt(flops / 120)
    return num_parameters, 20 * num_parameters
