"""Layers of one size start as copies of one layer.

hint: draw each layer's weight anew
"""

import copy


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        made = {pair: Linear(*pair, device, dtype) for pair in itertools.pairwise(dims)}
        self.layers = nn.ModuleList(copy.deepcopy(made[pair]) for pair in itertools.pairwise(dims))

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)
