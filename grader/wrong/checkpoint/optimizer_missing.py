"""The optimizer is not saved.

hint: what does the next step need besides the weights?
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": model.state_dict(),
        "groups": [len(group["params"]) for group in optimizer.param_groups],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        "numpy": [name, keys.tolist(), *rest],
        "random": random.getstate(),
    }


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"])
    if states["groups"] != [len(group["params"]) for group in optimizer.param_groups]:
        raise ValueError("other groups")
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])
