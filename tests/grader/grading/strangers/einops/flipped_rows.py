"""The rows inside a patch go from the bottom to the top."""


def patchify(images, patch):
    if images.shape[-1] % patch or images.shape[-2] % patch:
        raise ValueError("patch")
    cells = images.unfold(2, patch, patch).unfold(3, patch, patch).flip(-2)
    return cells.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
