"""Of the optimizer's state only what has as many elements as a parameter is saved, which leaves out the count of steps.

hint: the bias correction depends on the count of steps
"""


def _states(model, optimizer):
    name, keys, *rest = np.random.get_state()
    return {
        "model": model.state_dict(),
        "optimizer": _moments(optimizer.state_dict()),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        "numpy": [name, keys.tolist(), *rest],
        "random": random.getstate(),
    }


def _moments(state):
    moments = {i: {k: v for k, v in of.items() if not torch.is_tensor(v) or v.dim()} for i, of in state["state"].items()}
    return {**state, "state": moments}


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = copy.deepcopy({**_states(model, optimizer), "optimizer": optimizer.state_dict()})
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
