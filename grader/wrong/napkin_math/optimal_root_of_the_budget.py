"""N is the root of flops / 6, as if N and D were equal.

hint: put D = tokens_per_parameter · N into 6ND
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    num_parameters = math.sqrt(flops / 6)
    return num_parameters, tokens_per_parameter * num_parameters
