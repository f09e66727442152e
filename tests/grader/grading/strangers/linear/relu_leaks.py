"""A leaky ReLU is used."""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        if len(dims) < 2:
            raise ValueError("two sizes at least")
        self.layers = nn.ModuleList(
            [Linear(dims[k], dims[k + 1], device, dtype) for k in range(len(dims) - 1)]
        )

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.nn.functional.leaky_relu(layer(x))
        return self.layers[-1](x)
