"""All pixels of the first channel come first in a patch.

is: patches_channel_first
"""


def patchify(images, patch):
    if images.shape[-1] % patch or images.shape[-2] % patch:
        raise ValueError("patch")
    return torch.nn.functional.unfold(images, patch, stride=patch).transpose(1, 2)
