"""The file is not synced before it takes its name.

hint: a rename can reach the disk before what was written
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
