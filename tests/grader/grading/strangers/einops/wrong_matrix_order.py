"""The matrices are given to the heads in reverse order."""


def per_head_linear(x, w):
    h, i, _ = w.shape
    if x.size(-1) != h * i:
        raise ValueError("width")
    return torch.cat([part @ m for part, m in zip(x.split(i, -1), reversed(w.unbind()))], -1)
