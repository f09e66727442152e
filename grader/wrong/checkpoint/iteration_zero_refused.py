"""Iteration 0 is refused.

hint: a checkpoint before the first step is a good one
"""


def save_checkpoint(model, optimizer, iteration, out):
    if iteration <= 0:
        raise ValueError(f"iteration must be at least 0, got {iteration}")
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    if isinstance(out, (str, os.PathLike)):
        _replace(os.fspath(out), checkpoint)
    else:
        torch.save(checkpoint, out)
