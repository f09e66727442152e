"""Where writing fails, the temporary file is left.

hint: who removes it?
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    with open(temporary, "wb") as file:
        torch.save(checkpoint, file)
        os.fsync(file.fileno())
    os.replace(temporary, path)
