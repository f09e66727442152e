"""The layers are in a plain list, where no parameter is registered.

hint: nn.ModuleList registers the layers
"""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        self.layers = [Linear(i, o, device, dtype) for i, o in itertools.pairwise(dims)]

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)
