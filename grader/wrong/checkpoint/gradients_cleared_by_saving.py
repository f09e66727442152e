"""Saving clears the gradients.

hint: gradients are the caller's
"""


def save_checkpoint(model, optimizer, iteration, out):
    optimizer.zero_grad()
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    if isinstance(out, (str, os.PathLike)):
        _replace(os.fspath(out), checkpoint)
    else:
        torch.save(checkpoint, out)
