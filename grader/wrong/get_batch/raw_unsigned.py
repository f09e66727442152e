"""Raw tokens are always unsigned.

hint: np.memmap takes the dtype as it is given
"""

import os


def open_tokens(path, dtype=np.uint16):
    prefix = np.lib.format.MAGIC_PREFIX
    with open(path, "rb") as file:
        if file.read(len(prefix)) == prefix:
            return np.lib.format.open_memmap(path, mode="r")
    size, token_size = os.path.getsize(path), np.dtype(dtype).itemsize
    if size == 0 or size % token_size:
        raise ValueError(f"path {path} holds {size} bytes, which is no positive multiple of {token_size}")
    return np.memmap(path, dtype=f"uint{8 * token_size}", mode="r")
