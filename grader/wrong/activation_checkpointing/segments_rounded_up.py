"""Segments have the length rounded up, so that there are fewer of them than asked for.

hint: 9 layers in 4 segments: 3 + 3 + 3 are only three
"""


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError(f"segments must not be more than the number of layers, {len(layers)}, got {segments}")
        self.layers = nn.ModuleList(layers)
        self.segments = segments

    def forward(self, x):
        size = -(-len(self.layers) // self.segments)
        for start in range(0, len(self.layers), size):
            x = checkpoint(nn.Sequential(*self.layers[start : start + size]), x)
        return x
