"""The model is put into evaluation mode to be saved, and left there.

hint: the run goes on after a save
"""


def save_checkpoint(model, optimizer, iteration, out):
    model.eval()
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    if isinstance(out, (str, os.PathLike)):
        _replace(os.fspath(out), checkpoint)
    else:
        torch.save(checkpoint, out)
