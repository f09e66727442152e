"""More segments than layers are silently taken for one layer a segment.

is: segments_unchecked
"""


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        segments = min(segments, len(layers))
        self.blocks = nn.ModuleList(layers)
        short, longer = divmod(len(layers), segments)
        self.lengths = [short + 1] * longer + [short] * (segments - longer)

    def forward(self, x):
        done = 0
        for length in self.lengths:
            part = nn.Sequential(*self.blocks[done : done + length])
            x = checkpoint(part, x)
            done += length
        return x
