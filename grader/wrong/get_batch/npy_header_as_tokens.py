"""A .npy file is mapped as raw tokens, header and all.

hint: np.memmap reads a .npy header as tokens
"""


def open_tokens(path, dtype=np.uint16):
    return np.memmap(path, dtype=dtype, mode="r")
