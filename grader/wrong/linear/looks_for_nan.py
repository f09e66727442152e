"""The output is searched for NaN, which a meta tensor has no values for.

hint: leave values alone: not every tensor has any
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        std = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))

    def forward(self, x):
        y = x @ self.weight.T
        if y.isnan().any():
            raise ValueError("x or the weight holds NaN")
        return y
