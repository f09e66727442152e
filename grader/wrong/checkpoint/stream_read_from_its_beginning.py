"""A file-like object is read from its beginning.

hint: something may stand before the checkpoint
"""


def load_checkpoint(src, model, optimizer):
    if hasattr(src, "seek"):
        src.seek(0)
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
