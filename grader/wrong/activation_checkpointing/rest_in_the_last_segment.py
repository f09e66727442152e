"""Segments have the length rounded down, and the last one gets all that is left.

hint: 8 layers in 3 segments: 2 + 2 + 4 is not as equal as can be
"""

import itertools


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError(f"segments must not be more than the number of layers, {len(layers)}, got {segments}")
        self.layers = nn.ModuleList(layers)
        self.segments = segments

    def forward(self, x):
        size = len(self.layers) // self.segments
        ends = [*range(0, size * self.segments, size), len(self.layers)]
        for start, end in itertools.pairwise(ends):
            x = checkpoint(nn.Sequential(*self.layers[start:end]), x)
        return x
