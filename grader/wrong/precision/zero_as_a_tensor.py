"""The answer is a tensor.

hint: a bool: .item() takes it out of a tensor
"""


def underflows_to_zero(value, dtype):
    limit = torch.tensor(float_spec(dtype).smallest_subnormal, dtype=torch.float64) / 2
    return torch.tensor(value, dtype=torch.float64).abs() <= limit
