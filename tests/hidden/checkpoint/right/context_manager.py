"""Writes files in an atomic context manager, and restores a snapshot if loading fails."""

import contextlib
import tempfile


@contextlib.contextmanager
def _atomic(path):
    folder = os.path.dirname(os.fspath(path)) or "."
    file = tempfile.NamedTemporaryFile(dir=folder, delete=False)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file)
        os.replace(file.name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.name)
        raise


def _states(model, optimizer):
    numpy = np.random.get_state(legacy=False)
    numpy["state"]["key"] = [int(word) for word in numpy["state"]["key"]]
    version, words, waiting = random.getstate()
    return {
        "weights": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generators": [
            torch.get_rng_state(),
            torch.cuda.get_rng_state_all(),
            numpy,
            [version, list(words), waiting],
        ],
    }


def _restore(states, model, optimizer):
    cpu, gpus, numpy, (version, words, waiting) = states["generators"]
    model.load_state_dict(states["weights"])
    optimizer.load_state_dict(states["optimizer"])
    torch.random.set_rng_state(cpu)
    torch.cuda.set_rng_state_all(gpus[: torch.cuda.device_count()])
    numpy = {
        **numpy,
        "state": {**numpy["state"], "key": np.array(numpy["state"]["key"], dtype=np.uint32)},
    }
    np.random.set_state(numpy)
    random.setstate((version, tuple(words), waiting))


def save_checkpoint(model, optimizer, iteration, out):
    states = _states(model, optimizer)
    states["iteration"] = iteration
    with (
        _atomic(out) if isinstance(out, (str, os.PathLike)) else contextlib.nullcontext(out) as file
    ):
        torch.save(states, file)


def load_checkpoint(src, model, optimizer):
    loaded = torch.load(src, map_location="cpu")
    iteration = loaded["iteration"]
    snapshot = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(loaded, model, optimizer)
    except Exception:
        _restore(snapshot, model, optimizer)
        raise
    return iteration
