"""Of several GPUs only the current one's generator is saved.

hint: a run on two GPUs draws from two generators
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "cuda": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
        "numpy": [name, keys.tolist(), *rest],
        "random": random.getstate(),
    }
