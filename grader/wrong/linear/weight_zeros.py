"""The weight starts at zero.

hint: with equal weights every output is the same; draw them
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        if in_features < 1 or out_features < 1:
            raise ValueError(f"in_features and out_features must be at least 1, got {in_features} and {out_features}")
        self.weight = nn.Parameter(torch.zeros(out_features, in_features, device=device, dtype=dtype))

    def forward(self, x):
        return x @ self.weight.T
