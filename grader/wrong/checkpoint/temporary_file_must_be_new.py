"""The temporary file must not be there yet, so what a killed process left stops every later save.

hint: a killed process cannot tidy up
"""


def _replace(path, checkpoint):
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "xb") as file:
            torch.save(checkpoint, file)  # which flushes the file as well
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except FileExistsError:
        raise RuntimeError(f"another save is under way: {temporary} exists") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
