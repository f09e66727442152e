"""The file is written in place, and the state of torch's generator is not in it.

hint: what is left when the process dies in the middle, and which generators does a training run draw from?
price: two mistakes, each in the core: a crash leaves no checkpoint, and no run goes on as it was
most: 4.5
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "cuda": torch.cuda.get_rng_state_all(),
        "numpy": [name, keys.tolist(), *rest],
        "random": random.getstate(),
    }


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])


def _replace(path, checkpoint):
    torch.save(checkpoint, path)
