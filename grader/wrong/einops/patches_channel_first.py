"""Inside a patch all pixels of one channel come first.

hint: (p p c): the channels of a pixel are neighbours
"""


def patchify(images, patch):
    height, width = images.shape[-2:]
    if height % patch or width % patch:
        raise ValueError(f"patch must divide {height} and {width}, got {patch}")
    return rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=patch, q=patch)
