"""The standard deviation is one over the root of the number of outputs.

is: std_of_out_features
"""


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        if min(in_features, out_features) < 1:
            raise ValueError(
                f"in_features={in_features}, out_features={out_features}: both must be positive"
            )
        w = torch.empty((out_features, in_features), dtype=dtype, device=device)
        scale = w.size(0) ** -0.5
        self.weight = nn.Parameter(w)
        nn.init.trunc_normal_(self.weight, 0.0, scale, -3 * scale, 3 * scale)

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)
