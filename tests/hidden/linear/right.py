# Right solutions of linear in other styles; see grader/solutions/fragments.py.

# [einsum] Uses einsum and a ParameterList, and draws values outside the bounds again.
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
        sizes = itertools.pairwise(dims)
        self.matrices = nn.ParameterList(drawn(i, o, device, dtype) for i, o in sizes)

    def forward(self, x):
        for i, matrix in enumerate(self.matrices):
            x = torch.einsum("...i,oi->...o", x.relu() if i else x, matrix)
        return x


# [inverse_distribution] Samples the inverse distribution function in float64, and multiplies with
# tensordot.
class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        shape = out_features, in_features
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        with torch.no_grad():
            u = torch.rand(self.weight.shape, dtype=torch.float64, device=self.weight.device)
            z = math.sqrt(2) * torch.erfinv((2 * u - 1) * math.erf(3 / math.sqrt(2)))
            self.weight.copy_(z.clamp(-3, 3) / math.sqrt(in_features))

    def forward(self, x):
        return torch.tensordot(x, self.weight, dims=([-1], [1]))


# [sequential] Uses nn.Sequential with nn.ReLU and einops.
from einops import einsum


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = shape = in_features, out_features
        self.weight = nn.Parameter(torch.empty(shape[::-1], device=device, dtype=dtype))
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


# [shadowed_import] An editor has imported torch's Linear, which the module's own definition
# shadows.
from torch.nn import Linear


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        shape, std = (out_features, in_features), in_features**-0.5
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.weight, std=std, a=-3 * std, b=3 * std)

    def forward(self, x):
        return x @ self.weight.T


# [sum_of_products] Sums products, draws with numpy's generator, and sets one numbered attribute per
# layer.
import numpy as np


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        if weight.device.type != "meta":
            z = np.random.standard_normal((out_features, in_features))
            while (outside := np.abs(z) > 3).any():
                z[outside] = np.random.standard_normal(int(outside.sum()))
            weight.copy_(torch.from_numpy(z / math.sqrt(in_features)))
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        if x.shape[-1] != self.weight.shape[1]:
            raise ValueError(f"x has {x.shape[-1]} features, not {self.weight.shape[1]}")
        return (x.unsqueeze(-2) * self.weight).sum(dim=-1)


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        self.depth = len(dims) - 1
        for i in reversed(range(self.depth)):
            setattr(self, f"layer{i}", Linear(dims[i], dims[i + 1], device, dtype))

    def forward(self, x):
        for i in range(self.depth):
            x = getattr(self, f"layer{i}")(x)
            if i + 1 < self.depth:
                x = x.clamp(min=0)
        return x
