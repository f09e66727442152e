"""Makes so many forbidden calls that the list of them exceeds the largest allowed answer.

group: cheat the exercise
kind: source
target: linear
tests: registers_its_weight
status: policy
holds: the problem gets the status policy, and the report stays short.
"""


def source():
    head = b"import torch.nn.functional as F\nfrom torch import nn\n\n\nclass Linear(nn.Module):\n    def forward(self, x):\n"
    return head + b"        F.linear()\n" * 26_000
