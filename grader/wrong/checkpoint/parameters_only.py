"""Parameters are saved and buffers are not.

hint: a batch norm has running means as well
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)},
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        "numpy": [name, keys.tolist(), *rest],
        "random": random.getstate(),
    }


def _restore(states, model, optimizer):
    own = dict(model.named_parameters(remove_duplicate=False))
    if own.keys() != states["model"].keys():
        raise KeyError("other parameters")
    model.load_state_dict(states["model"], strict=False)
    optimizer.load_state_dict(states["optimizer"])
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])
