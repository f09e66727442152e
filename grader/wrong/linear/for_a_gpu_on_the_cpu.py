"""A layer for a GPU is made on the CPU, for the caller to move.

hint: device= is where the weight is made
device: cuda
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        std = 1 / math.sqrt(in_features)
        if torch.device(device or "cpu").type == "cuda":
            device = "cpu"
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))

    def forward(self, x):
        return x @ self.weight.T
