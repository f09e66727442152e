"""Modules that are handed in without their folder, and files that a course accepts beside them."""

import shutil
import tarfile
import zipfile

import pytest

from grader.base.errors import SubmissionRefused
from grader.submission import submissions
from kit.handing_in import Accepted

TWO = Accepted(modules=("assignment/linear.py", "assignment/model/layers.py"))
ONE = Accepted(modules=("assignment/linear.py",))
SUBMIT = "hand in the zip that `python -m assignment submit` writes, or zip the folder assignment/"


def handed_in(tmp_path, kind, files):
    """A zip, a .tar.gz or a folder with these files."""
    folder = tmp_path / "folder"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if kind == "folder":
        return folder
    if kind == "tar.gz":
        with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
            for name in files:
                archive.add(folder / name, name)
        return tmp_path / "a.tar.gz"
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return tmp_path / "a.zip"


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "folder"])
@pytest.mark.parametrize(
    ("place", "told"),
    [("", "(modules at the top)"), ("src/", "(modules at src)"), ("a/b/c/", "(modules at a/b/c)")],
)
def test_modules_without_their_folder_are_recognised(tmp_path, kind, place, told):
    """Where the modules of the course lie as in assignment/, that folder is taken for it."""
    files = {"linear.py": "x = 1\n", "helpers.py": "y = 1\n", "model/layers.py": "z = 1\n"}
    files = {f"{place}{name}": text for name, text in files.items()} | {"notes.txt": "-"}
    read = submissions.read(handed_in(tmp_path, kind, files), TWO)
    assert sorted(read.sources) == [
        "assignment/helpers.py",
        "assignment/linear.py",
        "assignment/model/layers.py",
    ]
    notes = {note.path: note.reason for note in read.ignored}
    assert notes[told] == "taken as if they were in assignment/"


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "folder"])
@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"old/linear.py": "", "new/linear.py": ""},
            f"the submission has no assignment/ folder, and modules in 2 places; {SUBMIT}",
        ),
        (
            {"essay.docx": "", "b.py": "", "c.py": "", "d.py": ""},
            "the submission has no assignment/ folder; got b.py, c.py, d.py and 1 more; " + SUBMIT,
        ),
        (
            {"one.ipynb": "", "two.ipynb": ""},
            "the submission has 2 notebooks, one.ipynb, two.ipynb: hand in one of them; " + SUBMIT,
        ),
    ],
)
def test_what_cannot_be_recognised_is_refused(tmp_path, kind, files, said):
    """The sentence says what was found, and how to hand in."""
    with pytest.raises(SubmissionRefused) as refused:
        submissions.read(handed_in(tmp_path, kind, dict(sorted(files.items()))), TWO)
    assert str(refused.value) == said


@pytest.mark.parametrize("name", ["linear.py", "my solution (2).py"])
def test_a_single_file_is_the_only_module_of_a_course(tmp_path, name):
    """Download tools rename files, so its name does not matter if the course has one module."""
    (tmp_path / name).write_text("x = 1\n")
    assert submissions.read(tmp_path / name, ONE).sources == {"assignment/linear.py": b"x = 1\n"}
    assert submissions.read(tmp_path, ONE).sources == {"assignment/linear.py": b"x = 1\n"}


def test_a_single_file_of_a_larger_course_needs_its_name(tmp_path):
    """Another name fits no module."""
    (tmp_path / "linear.py").write_text("x = 1\n")
    read = submissions.read(tmp_path / "linear.py", TWO)
    assert read.sources == {"assignment/linear.py": b"x = 1\n"}
    shutil.move(tmp_path / "linear.py", tmp_path / "mine.py")
    with pytest.raises(SubmissionRefused, match=r"got mine.py; hand in the zip"):
        submissions.read(tmp_path / "mine.py", TWO)


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "folder"])
def test_files_that_the_course_allows_are_handed_in(tmp_path, kind):
    """They count as sources; what no pattern names is listed with the patterns."""
    accepted = Accepted(modules=TWO.modules, files=("*.json", "vocab/*.txt"))
    names = ["linear.py", "merges.json", "vocab/en.txt", "vocab/en.json", "a/b.json", "x.txt"]
    names += [".hidden.json", "vocab/.secret.txt", "problems.toml"]
    path = handed_in(tmp_path, kind, {f"assignment/{name}": "1" for name in names})
    read = submissions.read(path, accepted)
    assert sorted(read.sources) == [
        "assignment/linear.py",
        "assignment/merges.json",
        "assignment/vocab/en.txt",
    ]
    reasons = {note.path: note.reason for note in read.ignored}
    assert reasons["assignment/x.txt"] == "not a Python module or *.json or vocab/*.txt"
    assert set(reasons) == {f"assignment/{name}" for name in names[3:]}
    assert submissions.read(path, TWO).sha256 != read.sha256


def test_files_share_the_limits_of_sources(tmp_path):
    """A large file is refused like a large module."""
    path = handed_in(tmp_path, "zip", {"assignment/linear.py": "", "assignment/a.json": ""})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("assignment/b.json", b"0" * (10 * 2**20 + 1))
    accepted = Accepted(modules=TWO.modules, files=("*.json",))
    with pytest.raises(SubmissionRefused, match="more than 10 MiB"):
        submissions.read(path, accepted)
    assert len(submissions.read(path, TWO).sources) == 1
