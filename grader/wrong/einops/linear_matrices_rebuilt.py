"""The matrices are copied into a new tensor of numbers, which autograd does not see.

hint: torch.tensor(…) of numbers cuts the graph; w[h] does not
"""


def per_head_linear(x, w):
    heads, d_in, d_out = w.shape
    if x.shape[-1] != heads * d_in:
        raise ValueError(f"x has {x.shape[-1]} features, not {heads} · {d_in}")
    matrices = [torch.tensor(w[h].tolist(), dtype=w.dtype) if w.device.type != "meta" else w[h] for h in range(heads)]
    slices = x.split(d_in, dim=-1)
    return torch.cat([part @ matrix for part, matrix in zip(slices, matrices)], dim=-1)
