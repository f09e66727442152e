"""The generators of GPUs are read where there is no GPU.

hint: what was saved with two GPUs may be loaded with none
"""


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    torch.set_rng_state(states["torch"])
    if len(states["cuda"]) != torch.cuda.device_count():
        raise RuntimeError(f"expected {len(states['cuda'])} GPUs")
    torch.cuda.set_rng_state_all(states["cuda"])
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])
