"""The file is synced as soon as it is open, before anything is in it.

hint: sync what has been written
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            os.fsync(file.fileno())
            torch.save(checkpoint, file)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
