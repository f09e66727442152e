"""By default there is one token a parameter.

hint: the default is 20
"""


def compute_optimal(flops, tokens_per_parameter=1.0):
    num_parameters = math.sqrt(flops / (6 * tokens_per_parameter))
    return num_parameters, tokens_per_parameter * num_parameters
