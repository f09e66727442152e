"""A .npy file is loaded into memory.

hint: np.load loads unless mmap_mode is given
"""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            return np.load(path)
    return np.memmap(path, dtype=dtype, mode="r")
