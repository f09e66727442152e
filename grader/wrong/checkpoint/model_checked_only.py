"""Names and shapes of the model are checked before the first change, and the groups of the optimizer are not.

hint: what if the optimizer does not fit?
"""


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    iteration, saved, _, _, _ = (checkpoint[key] for key in ("iteration", "model", "torch", "numpy", "random"))
    checkpoint["cuda"], checkpoint["optimizer"]["state"], checkpoint["optimizer"]["param_groups"]
    own = model.state_dict()
    if own.keys() != saved.keys() or any(own[name].shape != saved[name].shape for name in own):
        raise ValueError("the checkpoint is of another model")
    _restore(checkpoint, model, optimizer)
    return iteration
