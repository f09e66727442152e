"""torch multiplies tensors without memory, which cannot have more than 2**63 elements.

hint: a tensor cannot be larger than int64 counts; integers can
"""


def matmul_flops(a, b):
    try:
        result = torch.matmul(torch.empty(a, device="meta"), torch.empty(b, device="meta"))
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    return 2 * a[-1] * result.numel()
