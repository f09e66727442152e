"""Of numpy's state the words and the position are kept, and not the normal number in waiting.

hint: np.random.get_state() has five parts
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        "numpy": [name, keys.tolist(), rest[0]],
        "random": random.getstate(),
    }


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = {**copy.deepcopy(_states(model, optimizer)), "numpy": np.random.get_state()}
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
