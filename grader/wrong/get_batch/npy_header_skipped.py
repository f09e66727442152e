"""The header of a .npy file is skipped, but not read.

hint: the header says the dtype
"""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        offset = 128 if file.read(6) == b"\x93NUMPY" else 0
    return np.memmap(path, dtype=dtype, mode="r", offset=offset)
