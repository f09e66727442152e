"""Normal draws are clipped at three standard deviations.

is: clamped
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        for name, size in (("in_features", in_features), ("out_features", out_features)):
            if size < 1:
                raise ValueError(f"{name} is {size}")
        draws = torch.randn(out_features, in_features, device=device, dtype=dtype).clip(-3, 3)
        self.weight = nn.Parameter(draws * in_features**-0.5)

    def forward(self, x):
        return x.matmul(self.weight.mT)
