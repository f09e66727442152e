"""The weight is a buffer: it is saved and moved, but not learned.

hint: nn.Parameter registers a tensor that is learned
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        std = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.register_buffer("weight", nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))

    def forward(self, x):
        return x @ self.weight.T
