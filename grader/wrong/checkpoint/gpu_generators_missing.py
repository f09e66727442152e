"""The generators of the GPUs are left out.

hint: torch.get_rng_state() is the CPU's alone
device: cpu, cuda
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "cuda": [],
        "numpy": [name, keys.tolist(), *rest],
        "random": random.getstate(),
    }
