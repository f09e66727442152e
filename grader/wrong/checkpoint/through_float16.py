"""The weights are saved in half precision.

hint: a run that goes on from rounded weights is another run
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": {k: v.half() if v.dtype == torch.float32 else v for k, v in model.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        "numpy": [name, keys.tolist(), *rest],
        "random": random.getstate(),
    }


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = {**copy.deepcopy(_states(model, optimizer)), "model": copy.deepcopy(model.state_dict())}
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
