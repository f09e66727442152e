"""Names that are missing, or too many, are passed over in silence.

hint: strict=False loads any checkpoint at all
"""


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"], strict=False)
    optimizer.load_state_dict(states["optimizer"])
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])
