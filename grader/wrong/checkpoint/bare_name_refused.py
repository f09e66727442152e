"""The folder of a bare file name is "", which cannot be made.

hint: os.path.dirname("checkpoint") is ""; is there a folder to make at all?
"""


def _replace(path, checkpoint):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
