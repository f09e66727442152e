"""Uses torch's layer only under `if __name__ == "__main__"` and in a method that is never called, to check its own.

group: cheat the exercise
target: linear
reference: before
earns: full
holds: naming a forbidden function without calling it costs nothing.
"""

import torch
import torch.nn.functional as F


class Compared(Linear):
    def difference(self, x):
        return (self(x) - F.linear(x, self.weight)).abs().max()


if __name__ == "__main__":
    layer = Compared(3, 2)
    assert layer.difference(torch.ones(4, 3)) < 1e-6
    assert torch.allclose(layer(torch.ones(4, 3)), torch.nn.Linear(3, 2)(torch.ones(4, 3)))
