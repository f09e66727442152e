"""The stack draws its weights again, from the distribution of He and others.

hint: each layer's weight is made as in Linear
"""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        self.layers = nn.ModuleList(Linear(i, o, device, dtype) for i, o in itertools.pairwise(dims))
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)
