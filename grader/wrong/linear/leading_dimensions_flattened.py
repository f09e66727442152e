"""Leading dimensions are flattened into one and not restored.

hint: y has x's leading dimensions
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        std = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))

    def forward(self, x):
        return x.reshape(-1, x.shape[-1]) @ self.weight.T
