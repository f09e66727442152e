"""Whatever is given is taken for a path.

hint: a BytesIO can be written as well
"""


def save_checkpoint(model, optimizer, iteration, out):
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    _replace(os.fspath(out), checkpoint)
