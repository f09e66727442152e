"""A segment is every n-th layer instead of neighbouring ones.

hint: the layers run in the order given
"""


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError(f"segments must not be more than the number of layers, {len(layers)}, got {segments}")
        self.layers = nn.ModuleList(layers)
        self.segments = segments

    def forward(self, x):
        for i in range(self.segments):
            x = checkpoint(nn.Sequential(*list(self.layers)[i :: self.segments]), x)
        return x
