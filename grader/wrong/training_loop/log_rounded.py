"""The log rounds its numbers.

hint: JSON holds a float in full
"""


def _log(path, record):
    with open(path, "a", encoding="utf-8") as file:  # closing it hands the line to the operating system
        file.write(json.dumps({key: round(value, 4) for key, value in record.items()}) + "\n")
