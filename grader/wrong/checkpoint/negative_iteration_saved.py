"""A negative iteration is saved.

hint: what would it mean?
"""


def save_checkpoint(model, optimizer, iteration, out):
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    if isinstance(out, (str, os.PathLike)):
        _replace(os.fspath(out), checkpoint)
    else:
        torch.save(checkpoint, out)
