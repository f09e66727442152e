"""The weight starts at zero.

hint: with equal weights every output is the same; draw them
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out_features, in_features, device=device, dtype=dtype))

    def forward(self, x):
        return x @ self.weight.T
