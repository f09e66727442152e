"""A layer that is listed twice is registered once, and runs once."""


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError(f"{segments} segments of {len(layers)} layers")
        layers = list(dict.fromkeys(layers))
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
