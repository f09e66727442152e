"""As many segments as layers are refused.

hint: a segment may be one layer
"""


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments >= max(2, len(layers)):
            raise ValueError(f"segments must be less than the number of layers, {len(layers)}, got {segments}")
        self.layers = nn.ModuleList(layers)
        self.segments = segments

    def forward(self, x):
        n = len(self.layers)
        for i in range(self.segments):
            segment = self.layers[n * i // self.segments : n * (i + 1) // self.segments]
            x = checkpoint(nn.Sequential(*segment), x)
        return x
