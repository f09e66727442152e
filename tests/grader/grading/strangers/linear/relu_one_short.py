"""The last two layers have no ReLU between them."""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        if len(dims) < 2:
            raise ValueError("two sizes at least")
        self.layers = nn.ModuleList(
            [Linear(dims[k], dims[k + 1], device, dtype) for k in range(len(dims) - 1)]
        )

    def forward(self, x):
        for k, layer in enumerate(self.layers):
            x = layer(x)
            if k < len(self.layers) - 2:
                x = x.clamp(min=0)
        return x
