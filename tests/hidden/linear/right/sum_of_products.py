"""Sums products, draws with numpy's generator, and sets one numbered attribute per layer."""

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
            raise ValueError(
                f"x has {x.shape[-1]} features, not in_features {self.weight.shape[1]}"
            )
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


def count_parameters(module, *, trainable_only=False):
    total = 0
    for _, parameter in module.named_parameters():
        if trainable_only and not parameter.requires_grad:
            continue
        total += math.prod(parameter.shape)
    return total
