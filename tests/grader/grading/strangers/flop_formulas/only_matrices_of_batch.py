"""Of leading dimensions only the first one counts."""


def matmul_flops(a, b):
    out = torch.matmul(torch.empty(*a, device="meta"), torch.empty(*b, device="meta"))
    rows = a[-2] if len(a) > 1 else 1
    columns = b[-1] if len(b) > 1 else 1
    lead = math.prod(out.shape) // (rows * columns)
    return 2 * rows * a[-1] * columns * (out.shape[0] if lead > 1 else 1)
