"""The last token of a raw file is left out."""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as f:
        header = f.read(6)
    if header == b"\x93NUMPY":
        return np.load(path, mmap_mode="r")
    count = os.path.getsize(path) // np.dtype(dtype).itemsize
    return np.memmap(path, dtype=dtype, mode="r", shape=(count - 1,))
