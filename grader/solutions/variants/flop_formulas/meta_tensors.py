"""torch multiplies tensors without memory, and its own RuntimeError says which shapes do not fit."""


def matmul_flops(a, b):
    result = torch.matmul(torch.empty(a, device="meta"), torch.empty(b, device="meta"))
    return 2 * a[-1] * result.numel()
