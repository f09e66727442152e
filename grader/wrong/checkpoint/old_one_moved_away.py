"""The old checkpoint is moved to another name first, and put back by nobody.

hint: os.replace needs no free name
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    if os.path.exists(path):
        os.replace(path, f"{path}.old")
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
            os.fsync(file.fileno())
        os.replace(temporary, path)
        Path(f"{path}.old").unlink(missing_ok=True)
    finally:
        Path(temporary).unlink(missing_ok=True)
