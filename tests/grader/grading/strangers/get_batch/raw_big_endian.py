"""Raw tokens are read with the high byte first."""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as f:
        header = f.read(6)
    if header == b"\x93NUMPY":
        return np.load(path, mmap_mode="r")
    return np.memmap(path, dtype=np.dtype(dtype).newbyteorder(">"), mode="r")
