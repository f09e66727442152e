"""What weights_only=True refuses is loaded again without it.

hint: who wrote the file?
"""


def load_checkpoint(src, model, optimizer):
    try:
        checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    except Exception:
        checkpoint = torch.load(src, map_location="cpu", weights_only=False)
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
