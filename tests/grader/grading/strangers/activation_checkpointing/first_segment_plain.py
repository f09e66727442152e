"""The first segment runs without checkpoint, because its input is there anyway."""


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError(f"{segments} segments of {len(layers)} layers")
        self.blocks = nn.ModuleList(layers)
        short, longer = divmod(len(layers), segments)
        self.lengths = [short + 1] * longer + [short] * (segments - longer)

    def forward(self, x):
        done = 0
        for length in self.lengths:
            part = nn.Sequential(*self.blocks[done : done + length])
            x = part(x) if done == 0 else checkpoint(part, x)
            done += length
        return x
