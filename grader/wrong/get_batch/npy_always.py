"""Every file is taken for a .npy file.

hint: raw tokens have no header
"""


def open_tokens(path, dtype=np.uint16):
    return np.load(path, mmap_mode="r")
