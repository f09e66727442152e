"""The truncation is at three units instead of three standard deviations.

is: absolute_bounds
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        for name, size in (("in_features", in_features), ("out_features", out_features)):
            if size < 1:
                raise ValueError(f"{name} is {size}")
        self.weight = nn.Parameter(
            torch.empty(out_features, in_features, device=device, dtype=dtype)
        )
        nn.init.trunc_normal_(self.weight, mean=0.0, std=math.sqrt(1 / in_features), a=-3.0, b=3.0)

    def forward(self, x):
        return x @ self.weight.mT
