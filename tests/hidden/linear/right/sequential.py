"""Uses nn.Sequential with nn.ReLU and einops, and counts with a set of seen parameters."""

from einops import einsum


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(
            torch.empty((out_features, in_features), device=device, dtype=dtype)
        )
        self.reset_parameters()

    def reset_parameters(self):
        std = self.in_features**-0.5
        nn.init.trunc_normal_(self.weight, mean=0.0, std=std, a=-3 * std, b=3 * std)

    def forward(self, x):
        return einsum(x, self.weight, "... i, o i -> ... o")


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        modules = []
        for i in range(len(dims) - 1):
            modules += [Linear(dims[i], dims[i + 1], device=device, dtype=dtype), nn.ReLU()]
        self.net = nn.Sequential(*modules[:-1])

    def forward(self, x):
        return self.net(x)


def count_parameters(module, *, trainable_only=False):
    seen, total = set(), 0
    for m in module.modules():
        for p in m._parameters.values():
            if p is not None and id(p) not in seen and (p.requires_grad or not trainable_only):
                seen.add(id(p))
                total += p.numel()
    return total
