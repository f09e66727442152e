"""Every patch takes pixels from all over the image, h and w apart.

hint: (h p): p steps fastest, so a patch's pixels are neighbours
"""


def patchify(images, patch):
    height, width = images.shape[-2:]
    if height % patch or width % patch:
        raise ValueError(f"patch must divide {height} and {width}, got {patch}")
    return rearrange(images, "b c (p h) (q w) -> b (h w) (p q c)", p=patch, q=patch)
