"""The pixels are rounded to 8 bits.

hint: images may hold any floating-point numbers: elements only move
"""


def patchify(images, patch):
    images = (images * 255).round() / 255
    return rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=patch, q=patch)
