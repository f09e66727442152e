"""The temporary file's name is drawn from the generator of the run.

hint: a run that saves draws other numbers than one that does not
"""


def _replace(path, checkpoint):
    temporary = f"{path}.{random.randrange(10**9)}.tmp"
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
