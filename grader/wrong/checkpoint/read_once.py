"""A path that was read once is not read again.

hint: a later save replaces the file
"""

import functools


@functools.cache
def _read(path):
    return torch.load(path, map_location="cpu", weights_only=True)


def load_checkpoint(src, model, optimizer):
    checkpoint = copy.deepcopy(_read(src if hasattr(src, "read") else os.path.abspath(src)))
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
