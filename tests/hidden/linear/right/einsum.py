"""Uses einsum and a ParameterList, and draws values outside the bounds again."""


def drawn(in_features, out_features, device, dtype):
    std = in_features**-0.5
    z = torch.randn(out_features, in_features, device=device, dtype=dtype)
    while z.device.type != "meta" and bool((outside := z.abs() > 3).any()):
        z = torch.where(outside, torch.randn_like(z), z)
    return nn.Parameter(z * std)


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.weight = drawn(in_features, out_features, device, dtype)

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        self.matrices = nn.ParameterList(
            drawn(i, o, device, dtype) for i, o in itertools.pairwise(dims)
        )

    def forward(self, x):
        for i, matrix in enumerate(self.matrices):
            x = torch.einsum("...i,oi->...o", x.relu() if i else x, matrix)
        return x
