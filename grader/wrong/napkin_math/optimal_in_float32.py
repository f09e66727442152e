"""The root is taken in float32.

hint: float32 keeps seven digits: math.sqrt works in float64
"""


def compute_optimal(flops, tokens_per_parameter=20.0):
    num_parameters = torch.tensor(flops / (6 * tokens_per_parameter)).sqrt().item()
    return num_parameters, tokens_per_parameter * num_parameters
