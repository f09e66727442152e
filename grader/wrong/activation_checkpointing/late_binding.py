"""A function in the loop looks its segment up when it is called, and in the backward pass finds the last one.

hint: which segment does the function mean when the loop has ended?
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
        ends = [len(self.layers) * i // self.segments for i in range(self.segments + 1)]
        for start, end in itertools.pairwise(ends):

            def run(x):
                for layer in self.layers[start:end]:
                    x = layer(x)
                return x

            x = checkpoint(run, x)
        return x
