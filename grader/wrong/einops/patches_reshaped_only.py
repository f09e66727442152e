"""The elements are in the old order: a reshape where axes have to change places.

hint: reshape never moves an axis past another one
"""


def patchify(images, patch):
    height, width = images.shape[-2:]
    if height % patch or width % patch:
        raise ValueError(f"patch must divide {height} and {width}, got {patch}")
    b, c, height, width = images.shape
    return images.reshape(b, (height // patch) * (width // patch), patch * patch * c)
