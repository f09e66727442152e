"""After an error the model is put back, and the optimizer and the generators are not.

hint: three things are loaded
"""


def _restore(states, model, optimizer):
    optimizer.load_state_dict(states["optimizer"])
    model.load_state_dict(states["model"])
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        model.load_state_dict(before["model"])
        raise
