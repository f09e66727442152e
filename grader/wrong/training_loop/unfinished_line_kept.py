"""A line that was not finished stays, and the next one is written to its end.

hint: it has no newline at its end
"""


def _trim_log(path, first_step):
    lines = open(path).readlines() if os.path.exists(path) else []
    with open(path, "w") as file:
        for line in lines:
            try:
                keep = json.loads(line)["step"] < first_step
            except ValueError:
                keep = True
            if keep:
                file.write(line)
