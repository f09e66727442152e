"""The patches go column by column.

hint: (h w): w steps fastest
"""


def patchify(images, patch):
    height, width = images.shape[-2:]
    if height % patch or width % patch:
        raise ValueError(f"patch must divide {height} and {width}, got {patch}")
    return rearrange(images, "b c (h p) (w q) -> b (w h) (p q c)", p=patch, q=patch)
