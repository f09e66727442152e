"""A file-like object is closed when it is written.

hint: whoever opened it closes it
"""


def save_checkpoint(model, optimizer, iteration, out):
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    if isinstance(out, (str, os.PathLike)):
        _replace(os.fspath(out), checkpoint)
    else:
        with out:
            torch.save(checkpoint, out)
