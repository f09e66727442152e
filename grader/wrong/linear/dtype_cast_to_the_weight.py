"""The weight is always float32, and every input is cast to it.

hint: give dtype= to the tensor that becomes the weight, and leave x as it is
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        std = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features, device=device, dtype=torch.float32)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))

    def forward(self, x):
        return x.to(self.weight.dtype) @ self.weight.T
