"""The temporary file is removed on an Exception, which a KeyboardInterrupt is not.

hint: Ctrl-C is an exception of another kind
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except Exception:
        Path(temporary).unlink(missing_ok=True)
        raise
