"""The grid is taken for a square one.

hint: height and width each have their own number of patches
"""


def patchify(images, patch):
    height, width = images.shape[-2:]
    if height % patch or width % patch:
        raise ValueError(f"patch must divide {height} and {width}, got {patch}")
    b, c, height, width = images.shape
    side = math.isqrt((height // patch) * (width // patch))
    x = images.reshape(b, c, side, patch, -1, patch)
    return x.permute(0, 2, 4, 3, 5, 1).reshape(b, -1, patch * patch * c)
