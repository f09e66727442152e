"""A ReLU follows the first layer also where it is the last.

hint: none after the last layer, however few there are
"""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        self.layers = nn.ModuleList(Linear(i, o, device, dtype) for i, o in itertools.pairwise(dims))

    def forward(self, x):
        x = torch.relu(self.layers[0](x))
        if len(self.layers) == 1:
            return x
        for layer in self.layers[1:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)
