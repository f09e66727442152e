"""Loads into copies first, writes with os.write, and adds numpy's types to torch's allow-list."""

import io

torch.serialization.add_safe_globals(
    [np.ndarray, np.dtype, np.dtypes.UInt32DType, np._core.multiarray._reconstruct]
    + ([np._core.numeric._frombuffer] if hasattr(np._core.numeric, "_frombuffer") else [])
)


def save_checkpoint(model, optimizer, iteration, out):
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    generators = {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),
        "python": random.getstate(),
        "gpus": gpus,
    }
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
    weights, state, iteration, generators = torch.load(
        src, map_location=lambda storage, _: storage, weights_only=True
    )
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
