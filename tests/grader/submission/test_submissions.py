"""Reading a submission: which files are graded, listed or refused, and with which sentence."""

import bz2
import gzip
import io
import lzma
import os
import random
import stat
import sys
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.base.errors import SubmissionRefused
from grader.results.result_records import Ignored
from grader.submission import archives, submissions
from kit import handing_in
from kit.handing_in import EVERY_COURSE, Accepted
from tests.grader.processes import ran

LINEAR = {"assignment/linear.py": b"x = 1\n"}
SOURCES = LINEAR | {"assignment/parts/more.py": b"y = 2\n"}
ROOT = Path(submissions.__file__).parents[2]
FORMATS = ["zip", "tar.gz", "folder"]
HALF = b"#" * (5 * 2**20)
TWO = Accepted(modules=("assignment/linear.py", "assignment/model/layers.py"))
ONE = Accepted(modules=("assignment/linear.py",))
SUBMIT = "hand in the zip that `python -m assignment submit` writes, or zip the folder assignment/"
OUTSIDE = "outside assignment/"


def make_zip(path, files):
    """A zip with these files; a name ending in / is a folder."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def make_tar(path, members):
    """A .tar.gz of files by name, or of whole members with their content."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def make_folder(path, files):
    """A folder with these files."""
    path.mkdir()
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def make(kind, tmp_path, files, name="ada"):
    """The same files as a zip, a .tar.gz or a folder, each in a separate folder."""
    place = tmp_path / kind
    place.mkdir(exist_ok=True)
    if kind == "folder":
        return make_folder(place / name, files)
    return {"zip": make_zip, "tar.gz": make_tar}[kind](place / f"{name}.{kind}", files)


def below(place, files=SOURCES):
    """These files in another place."""
    return {f"{place}{name}": content for name, content in files.items()}


def empty(*names):
    return dict.fromkeys(names, b"")


# --- what is graded -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_sources_are_read_and_nothing_is_written(kind, tmp_path, monkeypatch):
    path = make(kind, tmp_path, SOURCES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = sorted((p, p.lstat().st_mtime_ns) for p in tmp_path.rglob("*"))
    got = submissions.read(path)
    assert ("ada", SOURCES, []) == (got.name, got.sources, got.ignored)
    assert [*SOURCES] == got.info.files
    assert before == sorted((p, p.lstat().st_mtime_ns) for p in tmp_path.rglob("*"))


OF_PARTS = {"assignment/parts/__init__.py": b"from assignment.parts.more import y"}
DEEP = below("model/", {"a.py": b""}) | {"linear.py": b"x = 1\n"}
LONGEST = empty(f"assignment/{'a' * 97}.py", f"assignment/{'a/' * 9}b.py")
# Files, the sources that are read of them, and the reasons of some that are not.
READ = {
    **{f"below {top}": (below(top), SOURCES, {}) for top in (
        "ada/", "ada-main/", "work of ada/", "./", "./ada/", "assignment.final/")},
    # A zipped repository of that name has a file next to the folder of modules.
    "below assignment/": (below("assignment/") | empty("assignment/README.md"), SOURCES, {}),
    # A BOM and CRLF stay, so that line numbers are those of the student.
    **{f"the content {content}": (one := {"assignment/a.py": content}, one, {}) for content in (
        b"\xef\xbb\xbfx = 1\r\n", b"", b"\xff\x00\x1a", b"x = 1")},
    # Without its __init__.py, `from assignment.parts import y` would fail only here.
    "a package of the student's": (SOURCES | OF_PARTS, SOURCES | OF_PARTS, {}),
    # A deeper folder is usually an older copy.
    "one further down": (SOURCES | {"old/assignment/linear.py": b"old"}, SOURCES, {"old": OUTSIDE}),
    "200 files": (many := empty(*(f"assignment/m{i}.py" for i in range(200))), many, {}),
    "10 MiB": (large := {"assignment/a.py": HALF, "assignment/b.py": HALF}, large, {}),
    # Longer names, or more folders, could not be written in every sandbox.
    "long paths": (LONGEST | empty(f"assignment/{'n' * 250}.txt"), LONGEST, {}),
    **{f"deep in {place}": (
        below(place, DEEP) | empty("__MACOSX/y/assignment/z.py"), below("assignment/", DEEP),
        {f"(the folder {place[:-1]})": "taken as assignment/"},
    ) for place in ("a/b/assignment/", "Assignment/", "x/ASSIGNMENT/", "a/b/c/d/Assignment/")},
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("files", "sources", "reasons"), READ.values(), ids=READ)
def test_what_is_graded_is_read(kind, files, sources, reasons, tmp_path):
    got = submissions.read(make(kind, tmp_path, files))
    assert sources == got.sources
    assert reasons.items() <= {(one.path.rstrip("/"), one.reason) for one in got.ignored}


@pytest.mark.parametrize("kind", FORMATS)
def test_the_hash_depends_on_the_graded_sources_alone(kind, tmp_path):
    """Not the format, the order, the name, a folder above, or ignored files."""
    expected = submissions.read(make("zip", tmp_path, SOURCES, name="first")).sha256
    others = dict(reversed(SOURCES.items())) | {"assignment/notes.txt": b"x", "README.md": b"x"}
    again = submissions.read(make(kind, tmp_path, below("top/", others), name="bob"))
    assert expected == again.sha256 == again.info.sha256
    for i, changed in enumerate(
        [
            SOURCES | {"assignment/linear.py": b"x = 1\n\n"},
            SOURCES | empty("assignment/extra.py"),
            LINEAR | {"assignment/parts/mare.py": b"y = 2\n"},
        ]
    ):
        assert expected != submissions.read(make(kind, tmp_path, changed, name=f"c{i}")).sha256


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_not_graded_is_listed_with_its_reason(kind, tmp_path):
    """Files outside assignment/ are listed by folder; files that tools create are not mentioned."""
    names = "README.md .git/objects/1 .git/objects/2 tests/test_linear.py conftest.py .DS_Store"
    names += " __MACOSX/assignment/._linear.py assignment/._linear.py"
    inside = "__init__.py __main__.py assignment.py conftest.py problems.toml notes.txt 2.py"
    inside += " a-b/x.py linear.PY linear.pyc __pycache__/linear.cpython-312.pyc .DS_Store"
    clutter = empty(*names.split(), *below("assignment/", empty(*inside.split(), "linear (1).py")))
    got = submissions.read(make(kind, tmp_path, SOURCES | clutter))
    folder = "" if kind == "folder" else "/"
    ours, name, kind = (
        "the course's own copy is used",
        "its name cannot be imported",
        "not a Python module",
    )
    expected = {
        f".git{folder}": OUTSIDE, "README.md": OUTSIDE, "assignment/2.py": name,
        "assignment/__init__.py": ours, "assignment/__main__.py": ours, "assignment/a-b/x.py": name,
        "assignment/assignment.py": ours,
        "assignment/conftest.py": "tests and their settings are the course's",
        "assignment/linear (1).py": name, "assignment/linear.PY": kind,
        "assignment/linear.pyc": kind, "assignment/notes.txt": kind,
        "assignment/problems.toml": ours, "conftest.py": OUTSIDE, f"tests{folder}": OUTSIDE,
    }  # fmt: skip
    assert SOURCES == got.sources
    listed = [(i.path, i.reason) for i in got.ignored if i.path != "__MACOSX"]
    assert [*expected.items()] == listed


def test_a_long_list_of_what_is_ignored_is_cut(tmp_path):
    files = SOURCES | empty(*(f"assignment/{i:03}.txt" for i in range(60)))
    ignored = submissions.read(make_zip(tmp_path / "a.zip", files)).ignored
    assert (51, Ignored("and 10 more", "not listed")) == (len(ignored), ignored[-1])


@pytest.mark.parametrize("kind", FORMATS)
def test_names_are_shown_without_control_characters(kind, tmp_path):
    """A name is untrusted text: it must not colour a terminal, reverse a line or end it."""
    names = ["assignment/\x1b[31m.txt", "assignment/\u202eyp.txt", "assignment/a\nb.txt"]
    got = submissions.read(make(kind, tmp_path, SOURCES | empty(*names), name="a\x1b]0;b\nc"))
    assert r"a\x1b]0;b\nc" == got.name
    assert ["assignment/\\x1b[31m.txt", "assignment/a\\nb.txt", "assignment/\\u202eyp.txt"] == [
        i.path for i in got.ignored
    ]


def with_mode(path, name, mode, content):
    """Add an entry to a zip that has the mode of a file or of a link."""
    with zipfile.ZipFile(path, "a") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, content)
    return path


def test_a_zip_of_any_system_is_read(tmp_path):
    """It may have backslashes, or folders and permissions."""
    windows = make_zip(tmp_path / "a.zip", {"ada\\assignment\\linear.py": b"x = 1\n"})
    unix = make_zip(tmp_path / "b.zip", empty("ada/", "ada/assignment/"))
    with_mode(unix, "ada/assignment/linear.py", stat.S_IFREG | 0o644, "x = 1\n")
    for path in (windows, unix):
        got = submissions.read(path)
        assert (LINEAR, []) == (got.sources, got.ignored)


# --- what is refused ------------------------------------------------------------------------------


def refusal(path, accepted=EVERY_COURSE):
    """The sentence of a refusal, with the submission's path replaced by PATH."""
    with pytest.raises(SubmissionRefused) as caught:
        submissions.read(path, accepted)
    return str(caught.value).replace(str(path), "PATH")


def test_what_is_no_file_is_refused(tmp_path):
    """A pipe is never opened, because opening would wait forever; a large file is not read."""
    os.mkfifo(tmp_path / "pipe.zip")
    with (tmp_path / "large.zip").open("wb") as f:
        f.truncate(64 * 2**20 + 1)  # sparse
    assert "PATH does not exist" == refusal(tmp_path / "nothing.zip")
    assert "PATH is neither a file nor a folder" == refusal(tmp_path / "pipe.zip")
    assert "PATH is larger than 64 MiB" == refusal(tmp_path / "large.zip")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"Rar!\x1a\x07", "a RAR archive"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (bz2.compress(b""), "compressed with bzip2"),
        (lzma.compress(b""), "compressed with xz"),
        (tarfile.TarInfo("a.py").tobuf(), "a tar without gzip"),
    ],
)
@pytest.mark.parametrize("name", ["a.zip", "a.rar", "a.tar.gz"])
def test_an_archive_of_another_kind_is_named(content, kind, name, tmp_path):
    (tmp_path / name).write_bytes(content)
    said = f"PATH is {kind}: hand in a .zip of the folder assignment/"
    assert said == refusal(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"x = 1\n", b"PK"])
def test_a_file_that_is_no_archive_is_refused(content, tmp_path):
    """A file with the name of an archive may be a download that was cut off."""
    for name, said in (
        ("a.zip", "damaged or incomplete: its content is neither a zip nor a tar.gz"),
        ("a.txt", "not a submission: expected a folder, a .zip, a .tar.gz, a .py or an .ipynb"),
    ):
        (tmp_path / name).write_bytes(content)
        assert f"PATH is {said}" == refusal(tmp_path / name)


TOO_LONG = "is too long: the name '{0}…' in it has 101 bytes; the name of a file or of its folder"
REFUSED = {
    "nothing": ({}, f"the submission is empty; {SUBMIT}"),
    "files alone": (
        empty("linear.py"), f"the submission has no assignment/ folder; got linear.py; {SUBMIT}",
    ),
    "many files": (
        empty("b.py", "c.py", "d.py", "essay.docx"),
        f"the submission has no assignment/ folder; got b.py, c.py, d.py and 1 more; {SUBMIT}",
    ),
    "a module of that name": (
        empty("assignment.py"),
        f"the submission has no assignment/ folder; got assignment.py; {SUBMIT}",
    ),
    "an archive": (
        empty("essay.pdf") | {"hw.zip": b"PK"},
        f"the submission contains another archive, hw.zip, which is not unpacked; {SUBMIT}",
    ),
    "two notebooks": (
        empty("one.ipynb", "two.ipynb"),
        f"the submission has 2 notebooks, one.ipynb, two.ipynb: hand in one of them; {SUBMIT}",
    ),
    "two folders": (
        empty("old/assignment/linear.py", "new/assignment/linear.py"),
        "there are 2 assignment/ folders; hand in one",
    ),
    "two folders deep inside": (
        empty("a/b/Assignment/x.py", "a/c/assignment/x.py"),
        "there are 2 assignment/ folders; hand in one",
    ),
    "no source": (
        empty("assignment/__init__.py", "assignment/a.txt"),
        "PATH has an assignment/ folder, but no Python file in it",
    ),
    "a file named assignment": (
        {"assignment": b"x = 1\n"}, "assignment is a file; it has to be a folder",
    ),
    "201 files": (
        empty(*(f"assignment/m{i}.py" for i in range(201))),
        "there are more than 200 files to grade under assignment/",
    ),
    "more than 10 MiB": (  # in a zip, they take a few KiB
        {"assignment/a.py": HALF, "assignment/b.py": HALF + b"#"},
        "the sources together are more than 10 MiB (at assignment/b.py)",
    ),
    "a long name": (empty(f"assignment/{'a' * 98}.py"), TOO_LONG.format("a" * 40)),
    "a long folder": (empty(f"assignment/{'a' * 101}/b.py"), TOO_LONG.format("a" * 40)),
    "many folders": (
        empty(f"assignment/{'a/' * 10}b.py"),
        "is too long: it is in 11 folders; a source may be in 10",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("files", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_graded_is_refused(kind, files, said, tmp_path):
    """Each shape has a sentence of its own, which explains what to do instead."""
    found = refusal(make(kind, tmp_path, files))
    assert said in found if "too long" in said else said == found


def test_most_sources_in_most_folders_fit_into_a_box():
    """Each needs its folders, and a test may make 4096 files."""
    assert handing_in.MAX_FILES * (handing_in.MAX_FOLDERS + 1) < 4096


ESCAPES = ["../assignment/linear.py", "assignment/../../linear.py", "/assignment/linear.py"]
ESCAPES += ["/etc/passwd", "a/..", "..", "C:/assignment/linear.py"]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
@pytest.mark.parametrize("name", ESCAPES)
def test_a_path_that_leads_out_is_refused(kind, name, tmp_path):
    """It is refused at any place, graded or not, because no honest program writes such a path."""
    path = make(kind, tmp_path, SOURCES | {name: b"x"})
    assert f"the path {name!r} leads out of the submission" == refusal(path)


def test_a_windows_path_that_leads_out_is_refused(tmp_path):
    """Backslashes count as slashes, and the path is shown without control characters."""
    path = make_zip(tmp_path / "a.zip", SOURCES | {"..\\\x1b[31m": b"x"})
    assert r"the path '../\\x1b[31m' leads out of the submission" == refusal(path)


NOT_PLAIN = "{} is not a plain file; only plain files are graded"
LINK = NOT_PLAIN.format("assignment/linear.py")


@pytest.mark.parametrize("target", ["/etc/passwd", "../other.py", "more.py"])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_a_link_or_a_device_in_a_tar_is_refused(kind, target, tmp_path):
    info = tarfile.TarInfo("assignment/linear.py")
    info.type, info.linkname = kind, target
    assert LINK == refusal(make_tar(tmp_path / "a.tar.gz", [*SOURCES.items(), (info, b"")]))


def test_a_link_in_a_zip_is_refused(tmp_path):
    """A zip stores a link as a file with the mode of a link."""
    path = tmp_path / "a.zip"
    assert LINK == refusal(
        with_mode(path, "assignment/linear.py", stat.S_IFLNK | 0o777, "/etc/passwd")
    )


@pytest.mark.parametrize("name", ["assignment/linear.py", "assignment/parts", "assignment"])
def test_a_link_in_a_folder_is_refused(name, tmp_path):
    """To a file, or to a folder, also in the place of assignment/."""
    others = {} if name == "assignment" else empty("assignment/more.py")
    folder = make_folder(tmp_path / "ada", others)
    (folder / name).symlink_to("/etc/passwd" if name.endswith(".py") else "/etc")
    assert NOT_PLAIN.format(name) == refusal(folder)


def test_links_outside_assignment_are_only_listed(tmp_path):
    """A virtual environment contains many links."""
    folder = make_folder(tmp_path / "ada", SOURCES)
    (folder / "python").symlink_to("/usr/bin/python3")
    assert [Ignored("python", OUTSIDE)] == submissions.read(folder).ignored


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("assignment/linear.py", f"grader.base.errors.SubmissionRefused: {LINK}"),
        ("assignment/a.txt", "[Ignored(path='assignment/a.txt', reason='not a Python module')]"),
    ],
)
def test_a_fifo_in_a_folder_never_makes_the_grader_wait(name, said, tmp_path):
    """The grader runs in a separate process, which is ended if it hangs."""
    folder = make_folder(tmp_path / "ada", empty("assignment/more.py"))
    os.mkfifo(folder / name)
    program = (
        "import sys, pathlib, grader.submission.submissions as s; "
        "print(s.read(pathlib.Path(sys.argv[1])).ignored)"
    )
    done = ran([sys.executable, "-c", program, folder], cwd=ROOT)
    assert said == (done.stdout + done.stderr).strip().splitlines()[-1]


@pytest.mark.parametrize("second", ["assignment/linear.py", "./assignment/linear.py"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice_is_refused(second, tmp_path):
    """Programs differ in which copy they use, so a person might not see the graded copy."""
    path = make_tar(tmp_path / "a.tar.gz", [("assignment/linear.py", b"good"), (second, b"bad")])
    assert "assignment/linear.py is in the archive twice" == refusal(path)
    path = make_zip(tmp_path / "a.zip", {"assignment/linear.py": b"good"})
    with_mode(path, second, 0, "bad")
    assert "assignment/linear.py is in the archive twice" == refusal(path)


def test_a_zip_that_lies_about_a_size_is_refused(tmp_path):
    """11 MiB claim to be 20,000 bytes; only these are read, and the checksum is wrong."""
    path = make_zip(tmp_path / "a.zip", {"assignment/a.py": b"#" * (11 * 2**20)})
    sizes = [size.to_bytes(4, "little") for size in (11 * 2**20, 20_000)]
    path.write_bytes(path.read_bytes().replace(*sizes))
    assert "PATH is damaged: Bad CRC-32 for file 'assignment/a.py'" == refusal(path)


def test_a_large_file_that_is_not_graded_is_no_reason_to_refuse(tmp_path):
    """A checkpoint next to the sources is not unpacked."""
    path = make_zip(tmp_path / "a.zip", SOURCES | {"assignment/weights.pt": bytes(20 * 2**20)})
    assert SOURCES == submissions.read(path).sources


@pytest.mark.parametrize("kind", FORMATS)
def test_too_many_entries_are_refused(kind, tmp_path, monkeypatch):
    """Ignored entries count too; the test lowers the limit to stay short."""
    monkeypatch.setattr(archives, "MAX_ENTRIES", 50)
    files = SOURCES | empty(*(f"assignment/{i}.txt" for i in range(50)))
    assert "PATH has more than 50 entries" == refusal(make(kind, tmp_path, files))


def changed(path, *places):
    """Change these bytes of a file, each by a function of its value."""
    data = bytearray(path.read_bytes())
    for find, change in places:
        at = find(data)
        data[at] = change(data[at])
    path.write_bytes(data)
    return path


def test_an_encrypted_zip_is_refused(tmp_path):
    """Both of an entry's headers have the mark."""
    path = make_zip(tmp_path / "a.zip", {"assignment/a.py": b"x"})
    central = (lambda data: data.index(b"PK\x01\x02") + 8, lambda byte: byte | 1)
    changed(path, (lambda data: 6, lambda byte: byte | 1), central)
    assert "PATH cannot be unpacked: it is encrypted" == refusal(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "lzma"])
def test_a_zip_of_another_compression_is_refused(method, tmp_path):
    """LZMA may need gigabytes to unpack a byte, and no zip program uses it by default."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("assignment/a.py", "x = 1\n" * 100)
    said = "PATH cannot be unpacked: its compression is not one that zip programs use by default"
    assert said == refusal(tmp_path / "a.zip")


@pytest.mark.parametrize("length", [2, 30, -400])
def test_a_damaged_archive_is_refused(length, tmp_path):
    """A changed byte of a zip, and the beginning of a tar."""
    path = make_zip(tmp_path / "a.zip", {"assignment/a.py": bytes(range(256)) * 4})
    changed(path, (lambda data: 200, lambda byte: byte ^ 255))
    assert refusal(path).startswith("PATH is damaged: ")
    path = make_tar(tmp_path / "a.tar.gz", {"assignment/a.py": random.Random(0).randbytes(50_000)})
    path.write_bytes(path.read_bytes()[:length])
    assert refusal(path).startswith("PATH is damaged: ")


def test_a_gzip_without_a_tar_is_refused(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(b"x = 1\n" * 500))
    assert "PATH is damaged: invalid header" == refusal(tmp_path / "a.tar.gz")


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_with_changed_bytes_is_read_or_refused(kind, data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / kind
    files = SOURCES | {"assignment/a" + "b" * 90 + "/" + "c" * 90 + ".py": b"z"}
    content = (make_zip if kind == "zip" else make_tar)(path, files).read_bytes()
    some = bytearray(content if kind == "zip" else gzip.decompress(content))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(some), 6000) - 1))
        new = data.draw(st.binary(min_size=1, max_size=8))
        some[at : at + len(new)] = new
    path.write_bytes(some if kind == "zip" else gzip.compress(bytes(some), 1))
    with suppress(SubmissionRefused):
        assert all(handing_in.SOURCE.fullmatch(name) for name in submissions.read(path).sources)


# --- modules under other names or without their folder, and files that a course accepts -----------


MODULES = ("assignment/linear.py", "assignment/optimizers.py")
MEANT = "was it meant as assignment/linear.py, which is missing?"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        *(([name], MEANT) for name in (
            "assignment/Linear.py", "assignment/linear.PY", "assignment/linear (1).py",
            "assignment/linear.py.txt", "assignment/two_layers.py", "linear_final_v2.py",
            "assignment/linears.py", "assignment/linear.py.bak", "assignment/linear_ada.py",
            "assignment/Copy of linear.py", "assignment/line.py", "assignment/linear_final.py.txt",
            "assignment/Kopie von linear.py",
        )),
        (["assignment/linear - Copy.py", "assignment/linear.py"], "was it meant as assignment/lin"),
        (["assignment/assignment/linear.py", "assignment/linear.py"], "was it meant as assignment"),
        (["assignment/linear.py", "solution.ipynb"], "was it meant as the solution?"),
        (["assignment/linear.py", "assignment/optimizer.py", "assignment/two_layers.py"], ""),
        (["assignment/linear.py", "assignment/data.py", "assignment/linear_parts.py"], ""),
        (["assignment/linear.py", "notes.txt", "docs/linear.md"], ""),
        (["assignment/lin.py"], ""),
    ],
)  # fmt: skip
def test_a_file_that_may_be_meant_as_a_module_is_named(tmp_path, files, told):
    """Nothing is said of a helper if the module with that name is there as well."""
    folder = make_folder(tmp_path / "ada", empty(*files) | {"assignment/optimizers.py": b"x = 1"})
    problems = (("two_layers", "assignment/linear.py"),)
    read = submissions.read(folder, Accepted(modules=MODULES, problems=problems))
    notes = [note for note in read.ignored if "was it meant as" in note.reason]
    assert [note.path for note in notes] == ([f for f in files if f not in MODULES] if told else [])
    assert all(told in note.reason for note in notes)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("place", "told"),
    [("", "(modules at the top)"), ("src/", "(modules at src)"), ("a/b/c/", "(modules at a/b/c)")],
)
def test_modules_without_their_folder_are_recognised(tmp_path, kind, place, told):
    """Where the modules of the course lie as in assignment/, that folder is taken for it."""
    modules = {"linear.py": b"x = 1\n", "helpers.py": b"y = 1\n", "model/layers.py": b"z = 1\n"}
    files = below(place, modules) | {"notes.txt": b"-"}
    read = submissions.read(make(kind, tmp_path, files), TWO)
    assert read.sources == below("assignment/", modules)
    notes = {note.path: note.reason for note in read.ignored}
    assert notes[told] == "taken as if they were in assignment/"
    twice = make(kind, tmp_path, empty("old/linear.py", "new/linear.py"), name="bob")
    said = f"the submission has no assignment/ folder, and modules in 2 places; {SUBMIT}"
    assert said == refusal(twice, TWO)


@pytest.mark.parametrize("name", ["linear.py", "my solution (2).py"])
def test_a_single_file_is_the_only_module_of_a_course(tmp_path, name):
    """Download tools rename files, so its name matters only if the course has more modules."""
    (tmp_path / name).write_text("x = 1\n")
    assert submissions.read(tmp_path / name, ONE).sources == LINEAR
    assert submissions.read(tmp_path, ONE).sources == LINEAR
    if name == "linear.py":
        assert submissions.read(tmp_path / name, TWO).sources == LINEAR
    else:
        assert f"got {name}; {SUBMIT}" in refusal(tmp_path / name, TWO)


@pytest.mark.parametrize("kind", FORMATS)
def test_files_that_the_course_allows_are_handed_in(tmp_path, kind):
    """They count as sources; what no pattern names is listed with the patterns."""
    accepted = Accepted(modules=TWO.modules, files=("*.json", "vocab/*.txt"))
    taken = below("assignment/", empty("linear.py", "merges.json", "vocab/en.txt"))
    others = below("assignment/", empty(
        "vocab/en.json", "a/b.json", "x.txt", ".hidden.json", "vocab/.secret.txt", "problems.toml"
    ))  # fmt: skip
    path = make(kind, tmp_path, taken | others)
    read = submissions.read(path, accepted)
    assert read.sources == taken
    reasons = {note.path: note.reason for note in read.ignored}
    assert reasons["assignment/x.txt"] == "not a Python module or *.json or vocab/*.txt"
    assert reasons.keys() == others.keys()
    assert submissions.read(path, TWO).sha256 != read.sha256


def test_files_share_the_limits_of_sources(tmp_path):
    files = empty("assignment/linear.py", "assignment/a.json")
    path = make("zip", tmp_path, files | {"assignment/b.json": b"0" * (10 * 2**20 + 1)})
    assert "more than 10 MiB" in refusal(path, Accepted(modules=TWO.modules, files=("*.json",)))
    assert len(submissions.read(path, TWO).sources) == 1
