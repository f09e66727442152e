"""The iteration after the one that was saved is returned.

hint: return what was saved
"""


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"] + 1
    except BaseException:
        _restore(before, model, optimizer)
        raise
