"""Names forbidden functions only in code that never runs: an unused helper, a self-check, a subclass for comparison.

group: cheat the exercise
target: adamw
reference: before
earns: full
holds: naming a forbidden function without calling it costs nothing.
"""

import torch


class Torch(torch.optim.AdamW):
    """A subclass to compare with by hand."""


def torchs_own(params):
    return torch.optim.AdamW(params, fused=True)


if __name__ == "__main__":
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    torchs_own([p]).step()
    torch.optim.AdamW([p]).step()
