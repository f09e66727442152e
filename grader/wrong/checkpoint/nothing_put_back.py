"""What was loaded before an error stays loaded.

hint: load_state_dict copies what fits and then complains of the rest
"""


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    _restore(checkpoint, model, optimizer)
    return checkpoint["iteration"]
