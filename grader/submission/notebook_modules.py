"""Take the modules of the assignment out of a notebook.

A cell that begins with Jupyter's `%%writefile assignment/linear.py` is that module; a later cell
for the same file replaces it, or with `-a` adds to it, as running the notebook from top to bottom
would. Nothing is run, and all other cells are ignored. Only the types and the sources of the cells
are looked at, so the rest of the notebook may follow any schema.
"""

import json
import re
import shlex
from collections.abc import Collection
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from grader.base.errors import SubmissionRefused
from kit.handing_in import SOURCE
from kit.safe_text import one_line

MAX_NOTEBOOK_BYTES = 32 * 2**20  # with its pictures
WRITES_A_FILE = ("%%writefile", "%%file")
APPENDS = {"-a", "--append"}
# Blank lines and comments before a magic, such as Colab's `#@title`.
NOT_CODE = re.compile(r"\A(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*")
# A later cell writes its files in the folder that an earlier one has moved to.
MOVES = re.compile(r"^[ \t]*(?:%?cd[ \t]+|os\.chdir\()([^\n]*)$", re.MULTILINE)
LONGEST_LINE = 1_000  # of a magic with quotes; splitting it takes long


def modules_in(content: bytes, name: str, modules: Collection[str] = ()) -> dict[str, bytes]:
    """The modules that a notebook's cells write, by path.

    Args:
        content: The notebook.
        name: Its name, for messages.
        modules: The paths of the course's modules, which may also be written without a folder.

    Raises:
        SubmissionRefused: It is not a notebook, or none of its cells writes a module.
    """
    found: dict[str, list[str]] = {}
    folder = ""
    for cell in _code_cells(content, name):
        first_line, _, text = NOT_CODE.sub("", cell).partition("\n")
        magic, *words = _words(first_line)
        if magic in WRITES_A_FILE and (path := _module(words, folder, modules)):
            if not APPENDS.intersection(words):
                found[path] = []
            found.setdefault(path, []).append(text.removesuffix("\n") + "\n")
        if moves := MOVES.findall(cell):
            folder = moves[-1].strip(" \t'\")")
    if not found:
        raise SubmissionRefused(
            f"{name} is a notebook, and none of its cells is a module: begin the cell with each "
            "module's code with a line like `%%writefile assignment/linear.py`, or hand in the "
            "modules with `python -m assignment submit`"
        )
    return {path: "".join(texts).encode("utf-8", "surrogatepass") for path, texts in found.items()}


def _words(line: str) -> list[str]:
    """The words of a magic, of which one in quotes may contain spaces; one empty word if none."""
    words = line.split() or [""]
    is_quoted = len(line) < LONGEST_LINE and any(mark in line for mark in "'\"\\")
    if is_quoted and words[0] in WRITES_A_FILE:
        with suppress(ValueError):
            return shlex.split(line.replace("\\", "/"))
    return words


def _module(words: list[str], folder: str, modules: Collection[str]) -> str:
    """The path of the module that a cell writes; "" if it writes another file.

    Whatever is before the folder assignment/, as on Colab, is another machine's.
    """
    paths = [word for word in words if word not in APPENDS]
    if len(paths) != 1:
        return ""
    (path,) = paths
    before, inside, rest = path.rpartition("assignment/")
    if inside and (not before or before.endswith("/")):
        path = inside + rest
    elif "/" not in path.removeprefix("./"):
        own = f"assignment/{path.removeprefix('./')}"
        is_inside = PurePosixPath(folder.replace("\\", "/")).name == "assignment"
        path = own if is_inside or own in modules else path
    return path if SOURCE.fullmatch(path) else ""


def _code_cells(content: bytes, name: str) -> list[str]:
    """The text of each code cell."""
    try:
        notebook: Any = json.loads(content)
    except (ValueError, RecursionError) as e:
        raise _no_notebook(name, one_line(str(e), 200)) from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        why = "expected an object with a list named cells, as of nbformat 4: save it in Jupyter"
        raise _no_notebook(name, why)
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
    return re.sub("\r\n?", "\n", "".join(lines))


def _no_notebook(name: str, why: str) -> SubmissionRefused:
    return SubmissionRefused(f"{name} is no valid notebook: {why}")
