"""A fresh run adds to the log of another one.

hint: a fresh run starts a new log
"""


def _trim_log(path, first_step):
    if first_step == 0:
        return
    end = 0
    with open(path, "ab+") as file:
        file.seek(0)
        for line in file:
            if not line.endswith(b"\n") or json.loads(line)["step"] >= first_step:
                break
            end += len(line)
        file.truncate(end)
