"""The temporary file is in the system's temporary folder.

hint: a rename works within one disk
"""

import tempfile


def _replace(path, checkpoint):
    temporary = os.path.join(tempfile.gettempdir(), os.path.basename(path))
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
