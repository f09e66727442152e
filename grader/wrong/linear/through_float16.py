"""The product is computed in float16 and cast back.

hint: float16 ends at 65,504 and at 6e-8: compute in x's own dtype
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        std = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))

    def forward(self, x):
        return (x.half() @ self.weight.T.half()).to(x.dtype)
