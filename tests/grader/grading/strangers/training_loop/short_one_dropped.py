"""Windows that fill no whole micro-batch are dropped."""


def _accumulate(model, optimizer, x, y, config):
    optimizer.zero_grad(set_to_none=True)
    size = min(config.micro_batch_size or len(x), len(x))
    loss = 0.0
    for n in range(len(x) // size):
        rows = slice(n * size, (n + 1) * size)
        part = _loss(model, x[rows], y[rows], config) * size / len(x)
        part.backward()
        loss += part.item()
    return loss
