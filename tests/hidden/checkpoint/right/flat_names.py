"""Saves a flat dict in torch's older file format, and copies the values by hand under no_grad."""


def save_checkpoint(model, optimizer, iteration, out):
    numpy = np.random.get_state()
    flat = {f"model/{name}": value for name, value in model.state_dict().items()}
    state = optimizer.state_dict()
    flat["optimizer/groups"] = state["param_groups"]
    flat["optimizer/state"] = state["state"]
    flat["iteration"] = iteration
    flat["torch"] = torch.default_generator.get_state()
    flat["cuda"] = [torch.cuda.get_rng_state(i) for i in range(torch.cuda.device_count())]
    flat["numpy/words"] = torch.tensor(numpy[1].astype(np.int64))
    flat["numpy/rest"] = list(numpy[2:])
    flat["python"] = random.getstate()
    if not isinstance(out, (str, os.PathLike)):
        torch.save(flat, out, _use_new_zipfile_serialization=False)
        return
    path = Path(os.fspath(out))
    temporary = path.parent / (path.name + "~")
    try:
        with temporary.open("wb") as file:
            torch.save(flat, file, _use_new_zipfile_serialization=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


@torch.no_grad()
def load_checkpoint(src, model, optimizer):
    flat = torch.load(src, map_location="cpu", weights_only=True)
    weights = {
        name.removeprefix("model/"): value
        for name, value in flat.items()
        if name.startswith("model/")
    }
    own = model.state_dict()
    if list(weights) != list(own) or [w.shape for w in weights.values()] != [
        w.shape for w in own.values()
    ]:
        raise ValueError("the checkpoint is of another model")
    groups = [len(group["params"]) for group in flat["optimizer/groups"]]
    if groups != [len(group["params"]) for group in optimizer.param_groups]:
        raise ValueError("the checkpoint is of an optimizer with other groups")
    iteration, states = (
        flat["iteration"],
        [flat[key] for key in ("torch", "cuda", "numpy/words", "numpy/rest", "python")],
    )
    optimizer.load_state_dict(
        {"state": flat["optimizer/state"], "param_groups": flat["optimizer/groups"]}
    )
    for name, value in weights.items():
        own[name].copy_(value)
    torch.default_generator.set_state(states[0])
    for i, state in zip(range(torch.cuda.device_count()), states[1]):
        torch.cuda.set_rng_state(state, i)
    np.random.set_state(("MT19937", states[2].numpy(), *states[3]))
    random.setstate(states[4])
    return iteration
