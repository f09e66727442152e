"""The patches are listed column after column.

is: patches_column_by_column
"""


def patchify(images, patch):
    if images.shape[-1] % patch or images.shape[-2] % patch:
        raise ValueError("patch")
    cells = images.permute(0, 2, 3, 1).unfold(1, patch, patch).unfold(2, patch, patch)
    return cells.permute(0, 2, 1, 4, 5, 3).flatten(3).flatten(1, 2)
