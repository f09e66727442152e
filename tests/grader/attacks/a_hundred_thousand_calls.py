"""Calls what it may not call so often that the list of its calls is larger than an answer may be.

group: cheat the exercise
kind: source
target: linear
status: policy
holds: the policy holds, and the report stays short.
"""


def source():
    head = b"import torch.nn.functional as F\nfrom torch import nn\n\n\nclass Linear(nn.Module):\n    def forward(self, x):\n"
    return head + b"        F.linear()\n" * 26_000
