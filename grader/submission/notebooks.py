"""Take the modules of the assignment out of a notebook.

A cell that begins with Jupyter's `%%writefile assignment/linear.py` is that module; a later cell
for the same file replaces it, or with `-a` adds to it, as running the notebook from top to bottom
would. Nothing is run, and all other cells are ignored. Only the types and the sources of the cells
are looked at, so the rest of the notebook may follow any schema.
"""

import json
from typing import Any

from grader.base.errors import SubmissionRefused
from kit.handing_in import SOURCE
from kit.text import one_line

MAX_NOTEBOOK_BYTES = 32 * 2**20  # with its pictures
WRITES_A_FILE = ("%%writefile", "%%file")
APPENDS = {"-a", "--append"}


def modules_in(content: bytes, name: str) -> dict[str, bytes]:
    """The modules that a notebook's cells write, by path.

    Args:
        content: The notebook.
        name: Its name, for messages.

    Raises:
        SubmissionRefused: It is not a notebook, or none of its cells writes a module.
    """
    found: dict[str, list[str]] = {}
    for cell in _code_cells(content, name):
        first_line, _, text = cell.lstrip().partition("\n")
        magic, *words = first_line.split() or [""]
        paths = [word for word in words if word not in APPENDS]
        if magic not in WRITES_A_FILE or len(paths) != 1:
            continue
        path = paths[0].strip("'\"").removeprefix("./")
        if SOURCE.fullmatch(path):
            before = found.get(path, []) if len(words) > 1 else []
            found[path] = before
            before.append(text.removesuffix("\n") + "\n")
    if not found:
        raise SubmissionRefused(
            f"{name} is a notebook, and none of its cells is a module: begin the cell with each "
            "module's code with a line like `%%writefile assignment/linear.py`, or hand in the "
            "modules with `python -m assignment submit`"
        )
    return {path: "".join(texts).encode("utf-8", "surrogatepass") for path, texts in found.items()}


def _code_cells(content: bytes, name: str) -> list[str]:
    """The text of each code cell."""
    try:
        notebook: Any = json.loads(content)
    except (ValueError, RecursionError) as e:
        raise _no_notebook(name, one_line(str(e), 200)) from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise _no_notebook(name, "expected an object with a list named cells, as of nbformat 4")
    return [
        _source_of(cell, f"{name}: cells[{number}]")
        for number, cell in enumerate(cells)
        if isinstance(cell, dict) and cell.get("cell_type") == "code"
    ]


def _source_of(cell: dict[str, Any], where: str) -> str:
    """A cell's text, which is stored as one string or as a list of them."""
    source = cell.get("source", "")
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        raise _no_notebook(where, "its source is neither a text nor a list of texts")
    return "".join(lines)


def _no_notebook(name: str, why: str) -> SubmissionRefused:
    return SubmissionRefused(f"{name} is no valid notebook: {why}")
