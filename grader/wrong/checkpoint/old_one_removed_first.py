"""The old checkpoint is removed before the new one is written.

hint: what is left when the process dies in between?
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    Path(path).unlink(missing_ok=True)
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
