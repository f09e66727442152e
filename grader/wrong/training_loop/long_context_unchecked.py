"""A context_length of all tokens is let through.

hint: the last target has to be in the data, too
"""


def _check(config, train_tokens, val_tokens):
    for name, least in LEAST.items():
        value = getattr(config, name)
        if value is not None and value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    if config.max_grad_norm is not None and not config.max_grad_norm > 0:
        raise ValueError(f"max_grad_norm must be above 0, got {config.max_grad_norm}")
    if len(train_tokens) < config.context_length:
        raise ValueError(f"context_length {config.context_length} leaves no target in {len(train_tokens)} train_tokens")
    if config.eval_every and (val_tokens is None or len(val_tokens) <= config.context_length):
        raise ValueError("eval_every asks for val_tokens, more than context_length of them")
    if config.checkpoint_every and config.checkpoint_path is None:
        raise ValueError("checkpoint_every asks for a checkpoint_path")
