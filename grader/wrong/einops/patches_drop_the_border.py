"""Pixels at the border that fill no whole patch are dropped.

hint: what should happen to 7 pixels and patches of 2?
"""


def patchify(images, patch):
    x = images.unfold(2, patch, patch).unfold(3, patch, patch)
    return rearrange(x, "b c h w p q -> b (h w) (p q c)")
