"""Raw tokens are always unsigned.

hint: np.memmap takes the dtype as it is given
"""


def open_tokens(path, dtype=np.uint16):
    prefix = np.lib.format.MAGIC_PREFIX
    with open(path, "rb") as file:
        if file.read(len(prefix)) == prefix:
            return np.lib.format.open_memmap(path, mode="r")
    return np.memmap(path, dtype=f"uint{8 * np.dtype(dtype).itemsize}", mode="r")
