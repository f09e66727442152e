"""Only the token after the window is predicted, and not every next token in it."""


def _loss(model, x, y, config):
    kind = config.device.split(":")[0]
    with torch.autocast(
        kind, dtype=config.autocast_dtype, enabled=config.autocast_dtype is not None
    ):
        return F.cross_entropy(model(x)[:, -1], y[:, -1])
