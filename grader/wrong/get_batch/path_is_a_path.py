"""The path is taken for a Path, which text is not.

hint: open(path) takes either
"""


def open_tokens(path, dtype=np.uint16):
    prefix = np.lib.format.MAGIC_PREFIX
    with path.open("rb") as file:
        if file.read(len(prefix)) == prefix:
            return np.lib.format.open_memmap(path, mode="r")
    return np.memmap(path, dtype=dtype, mode="r")
