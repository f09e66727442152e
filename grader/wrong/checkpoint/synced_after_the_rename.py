"""The file is synced when it has its name already.

hint: what if the power fails in between?
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
        os.replace(temporary, path)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    finally:
        Path(temporary).unlink(missing_ok=True)
