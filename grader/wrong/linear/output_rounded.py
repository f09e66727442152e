"""The output is rounded to 6 decimals.

hint: small numbers are numbers as well: 1e-8 is not 0
price: rounding has no slope, so it spoils the outputs and every gradient, in an MLP as well
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        std = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))

    def forward(self, x):
        return (x @ self.weight.T).round(decimals=6)
