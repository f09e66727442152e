"""The old checkpoint is kept beside the new one.

hint: the checkpoint is one file
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
            os.fsync(file.fileno())
        if os.path.exists(path):
            Path(f"{path}.old").write_bytes(Path(path).read_bytes())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
