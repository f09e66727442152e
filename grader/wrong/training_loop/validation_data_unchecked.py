"""Missing validation data is noticed at the first evaluation.

hint: look before the first step
"""


def _check(config, train_tokens, val_tokens):
    if len(train_tokens) <= config.context_length:
        raise ValueError(f"context_length {config.context_length} leaves no target in {len(train_tokens)} train_tokens")
    if config.checkpoint_every and config.checkpoint_path is None:
        raise ValueError("checkpoint_every asks for a checkpoint_path")
