"""The moments are saved, and the options of the groups are not.

hint: a schedule has changed the learning rate since the optimizer was made
"""


def _restore(states, model, optimizer):
    model.load_state_dict(states["model"])
    now = optimizer.state_dict()["param_groups"]
    then = states["optimizer"]["param_groups"]
    if [len(group["params"]) for group in now] != [len(group["params"]) for group in then]:
        raise ValueError("other groups")
    optimizer.load_state_dict({"state": states["optimizer"]["state"], "param_groups": now})
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])
    random.setstate(states["random"])
