"""The tokens of a .npy file are converted to dtype, in memory.

hint: a header has its own dtype, and a conversion is a copy
"""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            return np.load(path, mmap_mode="r").astype(dtype)
    return np.memmap(path, dtype=dtype, mode="r")
