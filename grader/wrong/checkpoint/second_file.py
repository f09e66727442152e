"""The random states are in a second file beside the first.

hint: what is left of them when the checkpoint is moved?
"""


def save_checkpoint(model, optimizer, iteration, out):
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    if isinstance(out, (str, os.PathLike)):
        generators = {key: checkpoint.pop(key) for key in ("torch", "cuda", "numpy", "random")}
        _replace(os.fspath(out), checkpoint)
        _replace(f"{os.fspath(out)}.rng", generators)
    else:
        torch.save(checkpoint, out)


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    if isinstance(src, (str, os.PathLike)):
        checkpoint |= torch.load(f"{os.fspath(src)}.rng", weights_only=True)
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
