"""A dot product of length K takes 2K - 1 operations.

is: one_add_less
"""


def matmul_flops(a, b):
    out = torch.matmul(torch.empty(*a, device="meta"), torch.empty(*b, device="meta"))
    return math.prod(out.shape) * (a[-1] + a[-1] - 1)
