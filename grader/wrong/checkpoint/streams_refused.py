"""Whatever is given is taken for a path.

hint: a BytesIO can be written as well
"""


def save_checkpoint(model, optimizer, iteration, out):
    if iteration < 0:
        raise ValueError(f"iteration must be at least 0, got {iteration}")
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    _replace(os.fspath(out), checkpoint)
