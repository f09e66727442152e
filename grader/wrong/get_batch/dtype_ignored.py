"""Raw tokens are always uint16.

hint: the dtype that is given
"""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            return np.load(path, mmap_mode="r")
    return np.memmap(path, dtype=np.uint16, mode="r")
