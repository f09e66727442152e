"""Twenty tokens a parameter are taken, whatever is asked for.

hint: is tokens_per_parameter used?
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    num_parameters = math.sqrt(flops / 120)
    return num_parameters, 20 * num_parameters
