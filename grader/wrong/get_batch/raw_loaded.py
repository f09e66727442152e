"""A raw file is read into memory.

hint: np.fromfile reads, np.memmap maps
"""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            return np.load(path, mmap_mode="r")
    return np.fromfile(path, dtype=dtype)
