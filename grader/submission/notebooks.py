"""Take the modules of the assignment out of a notebook.

A cell that begins with Jupyter's `%%writefile assignment/linear.py` is that module; a later cell
for the same file replaces it, or with `-a` adds to it, as running the notebook from top to bottom
would. Nothing is run, and all other cells are ignored.
"""

import re
import warnings

from grader.base.errors import GraderFault, SubmissionRefused
from kit.handing_in import SOURCE
from kit.text import printable

MAX_NOTEBOOK_BYTES = 32 * 2**20  # with its pictures
WRITES_A_FILE = re.compile(
    r"\s*%%(?:writefile|file)[ \t]+(-a[ \t]+|--append[ \t]+)?"
    r"['\"]?(?:\./)?(.+?)['\"]?[ \t]*(?:\n|$)"
)


def modules_in(content: bytes, name: str) -> dict[str, bytes]:
    """The modules that a notebook's cells write, by path.

    Args:
        content: The notebook.
        name: Its name, for messages.

    Raises:
        SubmissionRefused: It is not a notebook, or none of its cells writes a module.
        GraderFault: The package nbformat is not installed.
    """
    found: dict[str, str] = {}
    for cell in _code_cells(content, name):
        if (begin := WRITES_A_FILE.match(cell)) and SOURCE.fullmatch(path := begin[2]):
            text = cell[begin.end() :].removesuffix("\n") + "\n"
            found[path] = found.get(path, "") + text if begin[1] else text
    if not found:
        raise SubmissionRefused(
            f"{name} is a notebook, and none of its cells is a module: begin the cell with each "
            "module's code with a line like `%%writefile assignment/linear.py`, or hand in the "
            "modules with `python -m assignment submit`"
        )
    return {path: text.encode("utf-8", "surrogatepass") for path, text in found.items()}


def _code_cells(content: bytes, name: str) -> list[str]:
    """The text of each code cell."""
    try:
        import nbformat
    except ImportError:
        raise GraderFault(
            f"{name} is a notebook, and reading it needs a package: run `pip install nbformat`"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about ids that older notebooks lack
            notebook = nbformat.reads(content.decode("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
            nbformat.validate(notebook)
        return [str(cell.source) for cell in notebook.cells if cell.cell_type == "code"]
    except (RecursionError, Exception) as e:
        said = printable(str(e).strip().split("\n")[0] or type(e).__name__, 200)
        raise SubmissionRefused(f"{name} is no valid notebook: {said}") from None
