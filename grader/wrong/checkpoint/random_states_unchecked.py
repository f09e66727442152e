"""Model and optimizer are checked before the first change, and whether the random states are there is not.

hint: a file may be incomplete
"""


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    own, saved = model.state_dict(), checkpoint["model"]
    if own.keys() != saved.keys() or any(own[name].shape != saved[name].shape for name in own):
        raise ValueError("the checkpoint is of another model")
    copy.deepcopy(optimizer).load_state_dict(checkpoint["optimizer"])
    _restore(checkpoint, model, optimizer)
    return checkpoint["iteration"]
