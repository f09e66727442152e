"""The pixels of a patch go column by column.

hint: rows of pixels first, then columns
"""


def patchify(images, patch):
    height, width = images.shape[-2:]
    if height % patch or width % patch:
        raise ValueError(f"patch must divide {height} and {width}, got {patch}")
    return rearrange(images, "b c (h p) (w q) -> b (h w) (q p c)", p=patch, q=patch)
