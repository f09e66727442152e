"""Segments are cut with a length that is rounded up, so there may be fewer, and the last may be short.

is: segments_rounded_up
"""

import math


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError("too many segments")
        self.blocks = nn.ModuleList(layers)
        self.size = math.ceil(len(layers) / segments)

    def forward(self, x):
        for begin in range(0, len(self.blocks), self.size):
            x = checkpoint(nn.Sequential(*self.blocks[begin : begin + self.size]), x)
        return x
