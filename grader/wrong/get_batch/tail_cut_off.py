"""A file that ends inside a token loses its last bytes without a word.

hint: a size that is no multiple of the token is a ValueError
"""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            return np.load(path, mmap_mode="r")
    return np.memmap(path, dtype=dtype, mode="r", shape=(os.path.getsize(path) // np.dtype(dtype).itemsize,))
