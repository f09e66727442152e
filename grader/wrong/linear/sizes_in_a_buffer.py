"""The sizes are kept in a buffer and so saved with the weights.

hint: a plain attribute is not in the state_dict
"""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        self.layers = nn.ModuleList(Linear(i, o, device, dtype) for i, o in itertools.pairwise(dims))
        self.register_buffer("dims", torch.tensor(dims))

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)
