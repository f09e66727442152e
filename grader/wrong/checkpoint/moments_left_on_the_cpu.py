"""The optimizer's state is put in place as it was read, on the CPU.

hint: optimizer.load_state_dict takes the state to where the parameters are
device: cuda
"""


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    for state in optimizer.state.values():
        state.update({k: v.cpu() if torch.is_tensor(v) else v for k, v in state.items()})
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])
