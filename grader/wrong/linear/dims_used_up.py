"""The sizes are taken off the caller's list.

hint: inputs are left as they were
"""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        self.layers = nn.ModuleList()
        while len(dims) > 1:
            in_features = dims.pop(0)
            self.layers.append(Linear(in_features, dims[0], device, dtype))

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)
