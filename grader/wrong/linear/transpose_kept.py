"""A transposed copy of the weight is kept and used, which .to(...) and training leave behind.

hint: transpose where it is used: it copies nothing
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        std = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))
        self._transposed = self.weight.detach().T

    def forward(self, x):
        return x @ self._transposed
