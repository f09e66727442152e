"""Each layer clears the negative entries of its input in place, x among them.

hint: nothing in place on x
"""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        self.layers = nn.ModuleList(Linear(i, o, device, dtype) for i, o in itertools.pairwise(dims))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x.data.relu_() if i == 0 else torch.relu(x))
        return x
