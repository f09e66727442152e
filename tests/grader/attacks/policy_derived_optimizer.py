"""Derives its optimizer from torch's own, under a name that does not appear in the source.

group: cheat the exercise
target: adamw
status: policy
holds: creating an instance is detected.
"""

import torch

base = getattr(torch.optim, "".join(reversed("WmadA")))


class AdamW(base):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay)
