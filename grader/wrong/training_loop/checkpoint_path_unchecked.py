"""checkpoint_every without a path is let through, and nothing is saved.

hint: nobody asks for checkpoints without wanting any
"""


def _check(config, train_tokens, val_tokens):
    if len(train_tokens) <= config.context_length:
        raise ValueError(f"context_length {config.context_length} leaves no target in {len(train_tokens)} train_tokens")
    if config.eval_every and (val_tokens is None or len(val_tokens) <= config.context_length):
        raise ValueError("eval_every asks for val_tokens, more than context_length of them")
