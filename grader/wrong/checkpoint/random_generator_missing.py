"""The state of Python's generator is saved and not loaded.

hint: which generators does a training run draw from?
"""


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
