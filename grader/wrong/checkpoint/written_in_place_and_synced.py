"""The file is written in place, and synced.

hint: a file that is synced is still a file that was cut off first
"""


def _replace(path, checkpoint):
    with open(path, "wb") as file:
        torch.save(checkpoint, file)
        os.fsync(file.fileno())
