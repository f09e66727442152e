"""N and D are rounded to integers.

hint: neither is rounded: 6ND is flops up to the last digit
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    num_parameters = round(math.sqrt(flops / (6 * tokens_per_parameter)))
    return num_parameters, round(tokens_per_parameter * num_parameters)
