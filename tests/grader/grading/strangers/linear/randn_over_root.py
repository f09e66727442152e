"""The weight is torch.randn over the root of in_features, with no bounds.

is: untruncated
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        for name, size in (("in_features", in_features), ("out_features", out_features)):
            if size < 1:
                raise ValueError(f"{name} is {size}")
        self.weight = nn.Parameter(
            torch.randn(out_features, in_features, device=device, dtype=dtype) / in_features**0.5
        )

    def forward(self, x):
        return x @ self.weight.mT
