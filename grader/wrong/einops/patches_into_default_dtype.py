"""The patches are written into a tensor of the default dtype.

hint: images.new_empty, or dtype=images.dtype
"""


def patchify(images, patch):
    b, c, height, width = images.shape
    if height % patch or width % patch:
        raise ValueError(f"patch {patch} does not divide {height} × {width}")
    out = torch.zeros(b, height // patch * (width // patch), patch * patch * c, device=images.device)
    for n, (i, j) in enumerate((i, j) for i in range(0, height, patch) for j in range(0, width, patch)):
        out[:, n] = images[:, :, i : i + patch, j : j + patch].permute(0, 2, 3, 1).flatten(1)
    return out
