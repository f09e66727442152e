"""The iteration is checked when the file has been written.

hint: first check, then write
"""


def save_checkpoint(model, optimizer, iteration, out):
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    if isinstance(out, (str, os.PathLike)):
        _replace(os.fspath(out), checkpoint)
    else:
        torch.save(checkpoint, out)
    if iteration < 0:
        raise ValueError(f"iteration must be at least 0, got {iteration}")
