"""Layers that are left over when the length is rounded down do not run.

hint: 7 layers in 3 segments: which segment does the seventh belong to?
"""


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError(f"segments must not be more than the number of layers, {len(layers)}, got {segments}")
        self.layers = nn.ModuleList(layers)
        self.segments = segments

    def forward(self, x):
        size = len(self.layers) // self.segments
        for start in range(0, size * self.segments, size):
            x = checkpoint(nn.Sequential(*self.layers[start : start + size]), x)
        return x
