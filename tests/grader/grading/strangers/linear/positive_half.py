"""Only the upper half of the distribution is drawn: no entry is negative."""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        for name, size in (("in_features", in_features), ("out_features", out_features)):
            if size < 1:
                raise ValueError(f"{name} is {size}")
        sigma = 1 / in_features**0.5
        w = torch.empty(out_features, in_features, device=device, dtype=dtype)
        nn.init.trunc_normal_(w, std=sigma, a=-3 * sigma, b=3 * sigma)
        self.weight = nn.Parameter(w.abs())

    def forward(self, x):
        return x @ self.weight.t()
