"""The patches stay on a grid of two dimensions.

hint: (h w) is one dimension
"""


def patchify(images, patch):
    height, width = images.shape[-2:]
    if height % patch or width % patch:
        raise ValueError(f"patch must divide {height} and {width}, got {patch}")
    return rearrange(images, "b c (h p) (w q) -> b h w (p q c)", p=patch, q=patch)
