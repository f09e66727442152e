"""Gradients are never cleared, and a checkpoint is never read.

hint: backward adds to .grad; and where checkpoint_path exists, go on from there
price: two mistakes, each in the core: no step has the gradients of its batch, and no run goes on
most: 4
"""


def _accumulate(model, optimizer, x, y, config):
    rows = config.micro_batch_size or config.batch_size
    total = 0.0
    for x_part, y_part in zip(x.split(rows), y.split(rows), strict=True):
        loss = _loss(model, x_part, y_part, config) * (len(x_part) / len(x))
        loss.backward()
        total += loss.item()
    return total


def _start(model, optimizer, config):
    torch.manual_seed(config.seed)
    return 0
