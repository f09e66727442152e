"""The state of torch's generator on the CPU is saved and not loaded.

hint: which generators does a training run draw from?
"""


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])
