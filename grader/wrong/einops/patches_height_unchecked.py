"""Only the width is checked, and rows that fill no whole patch are dropped.

hint: both height and width have to be whole patches
"""


def patchify(images, patch):
    if images.shape[-1] % patch:
        raise ValueError(f"patch must divide {images.shape[-1]}, got {patch}")
    x = images.unfold(2, patch, patch).unfold(3, patch, patch)
    return rearrange(x, "b c h w p q -> b (h w) (p q c)")
