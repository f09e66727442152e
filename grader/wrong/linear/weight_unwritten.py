"""The weight is memory that nothing was written to.

hint: torch.empty takes memory as it is; nn.init.trunc_normal_ draws into it
price: no weight is drawn, and every test of a start sees it
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))

    def forward(self, x):
        return x @ self.weight.T
