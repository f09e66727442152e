"""One byte decides whether the file has a header.

hint: all six bytes tell: a token may begin with the first
"""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        if file.read(1) == b"\x93":
            return np.load(path, mmap_mode="r")
    return np.memmap(path, dtype=dtype, mode="r")
