"""A patch of 0 ends in a ZeroDivisionError.

hint: what does einops say to p = 0?
"""


def patchify(images, patch):
    return rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=patch, q=patch)
