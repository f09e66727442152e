"""Starts another Python, which nothing watches, to make the forbidden call.

group: cheat the exercise
target: linear
tests: test_linear
status: policy
earns: less
holds: a problem with forbidden functions cannot start another program.
"""

import subprocess
import sys
import tempfile

import torch
from torch import nn

TMP = tempfile.gettempdir()
CODE = f"import sys; sys.path[:] = {sys.path}; import torch; torch.save(torch.nn.functional.linear(*torch.load('{TMP}/in')), '{TMP}/out')"


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(
            torch.zeros(out_features, in_features, device=device, dtype=dtype)
        )

    def forward(self, x):
        torch.save((x.detach(), self.weight.detach()), f"{TMP}/in")
        subprocess.run([sys.executable, "-c", CODE], check=True)
        return torch.load(f"{TMP}/out")
