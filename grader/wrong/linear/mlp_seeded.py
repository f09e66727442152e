"""The seed is set when a stack is made, so that two stacks start equal.

hint: the caller sets the seed, if anyone does
"""


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Linear(i, o, device, dtype) for i, o in itertools.pairwise(dims))

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)
