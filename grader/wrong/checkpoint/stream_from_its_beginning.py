"""A file-like object is written from its beginning.

hint: something may stand before the checkpoint
"""


def save_checkpoint(model, optimizer, iteration, out):
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    if isinstance(out, (str, os.PathLike)):
        _replace(os.fspath(out), checkpoint)
    else:
        out.seek(0)
        torch.save(checkpoint, out)
