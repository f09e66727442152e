"""Of Python's state the words are kept, and not the normal number in waiting.

hint: random.getstate() has three parts
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        "numpy": [name, keys.tolist(), *rest],
        "random": (*random.getstate()[:2], None),
    }


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = {**copy.deepcopy(_states(model, optimizer)), "random": random.getstate()}
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
