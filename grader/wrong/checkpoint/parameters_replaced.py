"""The model gets new parameters, which the optimizer does not know.

hint: copy values into the parameters that are there
"""


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"], assign=True)
    optimizer.load_state_dict(states["optimizer"])
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])
