"""The truncation is at two standard deviations.

is: truncated_at_two
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
        s = in_features**-0.5
        nn.init.trunc_normal_(self.weight, std=s, a=-2 * s, b=2 * s)

    def forward(self, x):
        return x @ self.weight.mT
