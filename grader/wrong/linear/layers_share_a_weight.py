"""Layers of one size are one layer.

hint: make a new layer for each place
"""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        made = {pair: Linear(*pair, device, dtype) for pair in itertools.pairwise(dims)}
        self.layers = nn.ModuleList(made[pair] for pair in itertools.pairwise(dims))

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)
