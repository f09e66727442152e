"""device= and dtype= do not reach the layers.

hint: hand device= and dtype= on to each layer
"""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        self.layers = nn.ModuleList(Linear(i, o) for i, o in itertools.pairwise(dims))

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)
