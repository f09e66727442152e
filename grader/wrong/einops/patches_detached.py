"""The images are read under no_grad, as a loader of data would do.

hint: what is learned before the patches, a warp or an augmentation, needs the gradient
"""


@torch.no_grad()
def patchify(images, patch):
    return rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=patch, q=patch)
