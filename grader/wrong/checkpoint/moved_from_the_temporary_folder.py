"""The temporary file is in the system's temporary folder, and moved with shutil, which copies between disks.

hint: a copy is written in place
"""

import shutil
import tempfile


def _replace(path, checkpoint):
    temporary = os.path.join(tempfile.gettempdir(), os.path.basename(path))
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
            os.fsync(file.fileno())
        shutil.move(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
