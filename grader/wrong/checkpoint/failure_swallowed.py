"""A failure to write is printed, and the caller goes on as if there were a checkpoint.

hint: who needs to know that nothing was saved?
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except Exception as e:
        print(f"could not save: {e}")
    finally:
        Path(temporary).unlink(missing_ok=True)
