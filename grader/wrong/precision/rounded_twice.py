"""The value is converted by torch, by way of float32, which rounds twice.

hint: compare the exact value with half of the smallest subnormal
"""


def underflows_to_zero(value, dtype):
    float_spec(dtype)
    return torch.tensor(value, dtype=torch.float64).to(dtype).double().item() == 0.0
