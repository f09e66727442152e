"""The file is written in place.

hint: what is left when the process dies in the middle?
"""


def _replace(path, checkpoint):
    torch.save(checkpoint, path)
