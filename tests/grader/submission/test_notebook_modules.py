"""A notebook whose cells write modules; everything else that it may hold is ignored or refused."""

import json

import pytest

from grader.base.errors import SubmissionRefused
from grader.submission import submissions
from grader.submission.notebook_modules import modules_in
from kit.handing_in import zipped


def notebook(*cells, **changed):
    """A notebook with these code cells."""
    code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    made = {"cells": [code | {"source": cell} for cell in cells], "metadata": {}}
    return json.dumps(made | {"nbformat": 4, "nbformat_minor": 4} | changed).encode()


LINEAR = "%%writefile assignment/linear.py\nx = 1\n"


def test_cells_that_write_modules_are_taken_in_their_order():
    """A later cell replaces an earlier one, or adds to it with -a, as in a run of the notebook."""
    content = notebook(
        "import torch\n!pip install torch",
        "%%writefile assignment/linear.py\nold = 1",
        "%%writefile notes.txt\nnothing",
        ["%%writefile ./assignment/linear.py\n", "x = 1\n", "y = 2"],
        "%%writefile -a assignment/linear.py\nz = 3",
        "%%file 'assignment/model/layers.py'\n\npass",
        "x = '%%writefile assignment/other.py'",
        "%%writefile assignment/../linear.py\nbad = 1",
        "%%writefile my_assignment/linear.py\nbad = 1",
        "%%writefile linear.py\nbad = 1",
    )
    assert modules_in(content, "a.ipynb") == {
        "assignment/linear.py": b"x = 1\ny = 2\nz = 3\n",
        "assignment/model/layers.py": b"\npass\n",
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no valid notebook: "),
        (b"\xff", "is no valid notebook: 'utf-8' codec can't decode"),
        (b"[]", "is no valid notebook: "),
        (b"[" * 100_000, "is no valid notebook: "),
        (b'{"cells": NaN}', "is no valid notebook: expected an object with a list named cells"),
        (b'{"worksheets": [{"cells": []}]}', "a list named cells, as of nbformat 4"),
        (notebook(LINEAR, cells={"a": 1}), "a list named cells, as of nbformat 4"),
        (notebook(LINEAR, 7), "cells[1] is no valid notebook: its source is neither a text nor"),
        (notebook(["x", 7]), "cells[0] is no valid notebook: its source is neither a text nor"),
        (notebook(LINEAR, cells=[[]]), "none of its cells is a module"),
        (notebook("x = 1"), "none of its cells is a module: begin the cell with each module's"),
        (notebook(), "none of its cells is a module"),
    ],
    ids=range(12),
)
def test_what_is_no_notebook_is_one_sentence(content, said):
    with pytest.raises(SubmissionRefused) as refused:
        modules_in(content, "a.ipynb")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        notebook(LINEAR, nbformat=99, metadata=None),
        notebook(LINEAR, cells=[{"cell_type": "code", "source": LINEAR}, {"cell_type": 3}, 4]),
        b"\xef\xbb\xbf" + notebook(LINEAR),
        notebook(LINEAR).decode().encode("utf-16"),
        notebook(LINEAR.replace("\n", "\r\n")).replace(b"{", b"{\r\n"),
        notebook(LINEAR, metadata={"loss": float("nan"), "text": "\ud800"}),
        notebook("\n  %%file assignment/linear.py -a  \nx = 1"),
        notebook(f"%%writefile {'a' * 10**6} b\n", f"%%writefile a{' ' * 10**6}b\n", LINEAR),
    ],
    ids=range(8),
)
def test_only_the_types_and_the_sources_of_cells_decide(content):
    """Another schema, a byte order mark, line ends and NaN are no reason to refuse a notebook."""
    (source,) = modules_in(content, "a.ipynb").values()
    assert source.replace(b"\r", b"") == b"x = 1\n"


@pytest.mark.parametrize("wrap", ["alone", "in a zip", "in a folder"])
def test_a_notebook_is_a_submission(tmp_path, wrap):
    """It may be alone or in an archive, where Jupyter's own copies do not count."""
    path = tmp_path / "hw.ipynb"
    path.write_bytes(notebook(LINEAR))
    if wrap == "in a zip":
        path = tmp_path / "a.zip"
        others = {".ipynb_checkpoints/hw-checkpoint.ipynb": notebook("old"), "hw/notes.txt": b"x"}
        path.write_bytes(zipped({"hw/hw.ipynb": notebook(LINEAR)} | others))
    read = submissions.read(tmp_path if wrap == "in a folder" else path)
    assert read.sources == {"assignment/linear.py": b"x = 1\n"}
    (note,) = read.ignored
    assert note.path.endswith("hw.ipynb")
    assert note.reason == "its cells were taken as modules"


def test_modules_count_more_than_a_notebook_beside_them(tmp_path):
    (tmp_path / "assignment").mkdir()
    (tmp_path / "assignment" / "linear.py").write_text("y = 1\n")
    (tmp_path / "assignment" / "hw.ipynb").write_bytes(notebook(LINEAR))
    read = submissions.read(tmp_path)
    assert read.sources == {"assignment/linear.py": b"y = 1\n"}
    (note,) = read.ignored
    assert note.reason == "not a Python module; was it meant as the solution?"


@pytest.mark.parametrize(
    "cells",
    [
        ["%%writefile /content/drive/MyDrive/student/assignment/linear.py\nx = 1"],
        ['%%writefile "/content/drive/My Drive/student/assignment/linear.py"\nx = 1'],
        ["%%writefile C:\\me\\student\\assignment\\linear.py\nx = 1"],
        ["%%writefile ../assignment/linear.py\nx = 1"],
        ["%cd assignment", "%%writefile linear.py\nx = 1"],
        ["import os\nos.chdir('/content/drive/My Drive/assignment')", "%%file linear.py\nx = 1"],
        ["cd student/assignment/", "%%writefile ./linear.py\nx = 1"],
        ["#@title Linear\n\n%%writefile assignment/linear.py\nx = 1"],
        ["%%writefile assignment/linear.py\rx = 1"],
        ["%%writefile linear.py\nx = 1"],
        ["%cd assignment", "%cd ..", "%%writefile other.py\ny = 1", "%%file linear.py\nx = 1"],
    ],
    ids=range(11),
)
def test_where_another_machine_keeps_the_folder_does_not_matter(cells):
    """A path that ends in assignment/NAME.py is that module, as is a module's name alone."""
    assert modules_in(notebook(*cells), "a.ipynb", ["assignment/linear.py"]) == {
        "assignment/linear.py": b"x = 1\n"
    }
