"""Loading puts the whole model into training mode.

hint: modes are the caller's
"""


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        model.train()
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
