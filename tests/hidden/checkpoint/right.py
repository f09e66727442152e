# Right solutions of checkpoint in other styles; see grader/solutions/fragments.py.

# [checks_first] Checks everything before the first change, uses mkstemp, and stores numpy's state
# as a tensor.
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
    try:
        with os.fdopen(handle, "wb") as f:
            torch.save(payload, f)
            f.flush()
            os.fsync(f.fileno())
        os.rename(temporary, path)
    except BaseException:
        os.remove(temporary)
        raise


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


# [temporary_folder_inside] Creates the file in a temporary folder inside the checkpoint's folder,
# then renames it.
import tempfile


def _replace(path, checkpoint):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path) or ".") as folder:
        temporary = os.path.join(folder, "checkpoint")
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


# [tries_on_copies] Loads into copies first, writes with os.write, and adds numpy's types to torch's
# allow-list.
import io

torch.serialization.add_safe_globals(
    [np.ndarray, np.dtype, np.dtypes.UInt32DType, np._core.multiarray._reconstruct]
    + ([np._core.numeric._frombuffer] if hasattr(np._core.numeric, "_frombuffer") else [])
)


def save_checkpoint(model, optimizer, iteration, out):
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    generators = {"torch": torch.get_rng_state(), "numpy": np.random.get_state()}
    generators |= {"python": random.getstate(), "gpus": gpus}
    buffer = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict(), iteration, generators], buffer)
    data = buffer.getvalue()
    if isinstance(out, (str, os.PathLike)):
        target = Path(out)
        part = target.with_name(target.name + f".{os.getpid()}.part")
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fdatasync(fd)
            part.replace(target)
        except:
            part.unlink()
            raise
        finally:
            os.close(fd)
    else:
        out.write(data)


def load_checkpoint(src, model, optimizer):
    where = {"map_location": lambda storage, _: storage, "weights_only": True}
    weights, state, iteration, generators = torch.load(src, **where)
    trial, trial_optimizer = copy.deepcopy((model, optimizer))
    trial.load_state_dict(weights)
    trial_optimizer.load_state_dict(state)
    cpu, gpus = generators["torch"], generators["gpus"] or []
    np.random.RandomState().set_state(generators["numpy"])
    random.Random().setstate(generators["python"])
    torch.Generator().set_state(cpu)

    model.load_state_dict(weights)
    optimizer.load_state_dict(state)
    torch.set_rng_state(cpu)
    if torch.cuda.is_available():
        for i, gpu in enumerate(gpus[: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(gpu, i)
    np.random.set_state(generators["numpy"])
    random.setstate(generators["python"])
    return iteration
