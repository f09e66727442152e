"""The output's last size is left for reshape to find out, which an empty output does not allow.

hint: y's last size is known: out_features
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        std = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))

    def forward(self, x):
        y = x.reshape(-1, x.shape[-1]) @ self.weight.T
        return y.reshape(*x.shape[:-1], -1)
