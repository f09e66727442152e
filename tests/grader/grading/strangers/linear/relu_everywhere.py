"""Each layer's output goes through a ReLU, the result as well.

is: relu_after_last
"""

import itertools


class MLP(nn.Module):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__()
        if len(dims) < 2:
            raise ValueError("two sizes at least")
        blocks = []
        for size, following in itertools.pairwise(dims):
            blocks += [Linear(size, following, device=device, dtype=dtype), nn.ReLU()]
        self.net = nn.Sequential(*blocks)

    def forward(self, x):
        return self.net(x)
