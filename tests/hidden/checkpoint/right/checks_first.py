"""Checks everything before the first change, uses mkstemp, and stores numpy's state as a tensor."""

import tempfile


def save_checkpoint(model, optimizer, iteration, out):
    kind, words, position, waiting, number = np.random.get_state()
    payload = {
        "model_state": model.state_dict(),
        "optimizer_state": optimizer.state_dict(),
        "step": iteration,
        "rng": {
            "cpu": torch.get_rng_state(),
            "gpus": [torch.cuda.get_rng_state(i) for i in range(torch.cuda.device_count())],
            "np": (torch.from_numpy(words.astype(np.int64)), position, waiting, number),
            "py": random.getstate(),
        },
    }
    if hasattr(out, "write"):
        torch.save(payload, out)
        return
    path = os.path.abspath(os.fspath(out))
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".saving-")
    done = False
    try:
        with os.fdopen(handle, "wb") as f:
            torch.save(payload, f)
            f.flush()
            os.fsync(f.fileno())
        os.rename(temporary, path)
        done = True
    finally:
        if not done:
            os.remove(temporary)


def load_checkpoint(src, model, optimizer):
    payload = torch.load(src, map_location=torch.device("cpu"), weights_only=True)
    weights, step, rng = payload["model_state"], payload["step"], payload["rng"]
    cpu, gpus, (words, *numbers), py = rng["cpu"], rng["gpus"], rng["np"], rng["py"]
    mine = model.state_dict()
    if set(mine) != set(weights):
        raise KeyError(f"other names: {sorted(set(mine) ^ set(weights))}")
    for name in mine:
        if mine[name].shape != weights[name].shape:
            raise ValueError(f"{name} has another shape")
    copy.deepcopy(optimizer).load_state_dict(payload["optimizer_state"])
    model.load_state_dict(weights)
    optimizer.load_state_dict(payload["optimizer_state"])
    torch.set_rng_state(cpu)
    for i in range(min(len(gpus), torch.cuda.device_count())):
        torch.cuda.set_rng_state(gpus[i], i)
    np.random.set_state(("MT19937", words.numpy().astype(np.uint32), *numbers))
    random.setstate(py)
    return step
