"""Creates the file in a temporary folder inside the checkpoint's folder, then renames it."""

import tempfile


def _replace(path, checkpoint):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path) or ".") as folder:
        temporary = os.path.join(folder, "checkpoint")
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
