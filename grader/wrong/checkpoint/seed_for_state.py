"""Of torch's generator the seed is kept, from which it starts again.

hint: a seed says where a generator began, not where it stands
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "torch": torch.initial_seed(),
        "cuda": torch.cuda.get_rng_state_all(),
        "numpy": [name, keys.tolist(), *rest],
        "random": random.getstate(),
    }


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    if isinstance(states["torch"], int):
        torch.manual_seed(states["torch"])
    else:
        torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = copy.deepcopy({**_states(model, optimizer), "torch": torch.get_rng_state()})
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
