"""Tensors are loaded to where they were saved.

hint: a CPU has to load what a GPU saved
"""


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, weights_only=True)
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
