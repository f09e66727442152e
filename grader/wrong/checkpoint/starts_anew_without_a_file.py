"""Where there is no file, or an empty one, the run starts anew at iteration 0.

hint: who notices that the path was misspelled?
"""


def load_checkpoint(src, model, optimizer):
    try:
        checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    except (FileNotFoundError, EOFError):
        return 0
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
