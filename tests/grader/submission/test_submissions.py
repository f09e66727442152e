"""Reading a submission: which files are graded, listed or refused, and with which sentence."""

import bz2
import gzip
import io
import lzma
import os
import random
import shutil
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
from grader.results.records import Ignored
from grader.submission import archives, submissions
from kit import handing_in
from kit.handing_in import Accepted
from tests.grader.processes import ran

SOURCES = {
    "assignment/linear.py": b"x = 1\n",
    "assignment/parts/__init__.py": b"from assignment.parts.more import y",
    "assignment/parts/more.py": b"y = 2\n",
}
ROOT = Path(submissions.__file__).parents[2]
FORMATS = ["zip", "tar.gz", "folder"]


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
            if content is not None:
                content = content if isinstance(content, bytes) else content.encode()
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content or b""))
    return path


def make_folder(path, files):
    """A folder with these files."""
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def make(kind, tmp_path, files, name="ada"):
    """The same files as a zip, a .tar.gz or a folder, each in a separate folder."""
    place = tmp_path / kind
    place.mkdir(exist_ok=True)
    if kind == "folder":
        return make_folder(place / name, files)
    return {"zip": make_zip, "tar.gz": make_tar}[kind](place / f"{name}.{kind}", files)


def link(name, kind, target):
    """A tar member that is a link."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def listing(path):
    """Every path below a folder with its modification time, to show that nothing was written."""
    return sorted((str(p), p.lstat().st_mtime_ns) for p in path.rglob("*"))


# --- what is graded -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_sources_are_read_and_nothing_is_written(kind, tmp_path, monkeypatch):
    path = make(kind, tmp_path, SOURCES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = listing(tmp_path)
    got = submissions.read(path)
    assert ("ada", SOURCES, []) == (got.name, got.sources, got.ignored)
    assert [*SOURCES] == got.info.files
    assert before == listing(tmp_path)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "top",
    ["ada/", "ada-main/", "work of ada/", "./", "./ada/", "assignment/", "assignment.final/"],
)
def test_one_folder_above_assignment_is_left_out(kind, top, tmp_path):
    """It may be a zipped repository of that name, with a file next to the folder of modules."""
    files = {f"{top}{name}": content for name, content in (SOURCES | {"README.md": b""}).items()}
    path = make(kind, tmp_path, files)
    assert SOURCES == submissions.read(path).sources


@pytest.mark.parametrize("kind", FORMATS)
def test_the_hash_depends_on_the_graded_sources_alone(kind, tmp_path):
    """Not the format, the order, the name, a folder above, or ignored files."""
    expected = submissions.read(make("zip", tmp_path, SOURCES)).sha256
    others = dict(reversed(SOURCES.items())) | {"assignment/notes.txt": b"x", "README.md": b"x"}
    again = make(
        kind, tmp_path, {"top/" + name: content for name, content in others.items()}, name="bob"
    )
    assert expected == submissions.read(again).sha256 == submissions.read(again).info.sha256
    for i, changed in enumerate(
        [
            SOURCES | {"assignment/linear.py": b"x = 1\n\n"},
            SOURCES | {"assignment/extra.py": b""},
            {"assignment/linear.py": b"x = 1\n", "assignment/parts/mare.py": b"y = 2\n"},
        ]
    ):
        assert expected != submissions.read(make(kind, tmp_path, changed, name=f"c{i}")).sha256


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbfx = 1\r\n", b"", b"\xff\x00\x1a", b"x = 1"],
    ids=["bom", "empty", "binary", "bare"],
)
def test_a_source_is_kept_byte_by_byte(kind, content, tmp_path):
    """A BOM and CRLF stay, so line numbers are those of the student."""
    assert (
        content
        == submissions.read(make(kind, tmp_path, {"assignment/a.py": content})).sources[
            "assignment/a.py"
        ]
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_not_graded_is_listed_with_its_reason(kind, tmp_path):
    """Files outside assignment/ are listed by folder; files that tools create are not mentioned."""
    names = "README.md .git/objects/1 .git/objects/2 tests/test_linear.py conftest.py .DS_Store"
    names += " __MACOSX/assignment/._linear.py assignment/._linear.py"
    inside = "__init__.py __main__.py assignment.py conftest.py problems.toml notes.txt 2.py"
    inside += " a-b/x.py linear.PY linear.pyc __pycache__/linear.cpython-312.pyc .DS_Store"
    below = [f"assignment/{name}" for name in (*inside.split(), "linear (1).py")]
    clutter = dict.fromkeys([*names.split(), *below], b"")
    got = submissions.read(make(kind, tmp_path, SOURCES | clutter))
    outside = "outside assignment/"
    folder = "" if kind == "folder" else "/"
    ours, name, kind = (
        "the course's own copy is used",
        "its name cannot be imported",
        "not a Python module",
    )
    expected = {
        f".git{folder}": outside, "README.md": outside, "assignment/2.py": name,
        "assignment/__init__.py": ours, "assignment/__main__.py": ours, "assignment/a-b/x.py": name,
        "assignment/assignment.py": ours,
        "assignment/conftest.py": "tests and their settings are the course's",
        "assignment/linear (1).py": name, "assignment/linear.PY": kind,
        "assignment/linear.pyc": kind, "assignment/notes.txt": kind,
        "assignment/problems.toml": ours, "conftest.py": outside, f"tests{folder}": outside,
    }  # fmt: skip
    assert SOURCES == got.sources
    listed = [(i.path, i.reason) for i in got.ignored if i.path != "__MACOSX"]
    assert [*expected.items()] == listed


def test_a_long_list_of_what_is_ignored_is_cut(tmp_path):
    path = make_zip(
        tmp_path / "a.zip", SOURCES | {f"assignment/{i:03}.txt": b"" for i in range(60)}
    )
    ignored = submissions.read(path).ignored
    assert (51, Ignored("and 10 more", "not listed")) == (len(ignored), ignored[-1])


@pytest.mark.parametrize("kind", FORMATS)
def test_names_are_shown_without_control_characters(kind, tmp_path):
    """A name is untrusted text: it must not colour a terminal, reverse a line or end it."""
    names = ["assignment/\x1b[31m.txt", "assignment/\u202eyp.txt", "assignment/a\nb.txt"]
    path = make(kind, tmp_path, SOURCES | dict.fromkeys(names, b""), name="a\x1b]0;b\nc")
    got = submissions.read(path)
    assert r"a\x1b]0;b\nc" == got.name
    assert ["assignment/\\x1b[31m.txt", "assignment/a\\nb.txt", "assignment/\\u202eyp.txt"] == [
        i.path for i in got.ignored
    ]


def test_windows_paths_in_a_zip_are_paths(tmp_path):
    path = make_zip(tmp_path / "a.zip", {"ada\\assignment\\linear.py": b"x = 1\n"})
    assert {"assignment/linear.py": b"x = 1\n"} == submissions.read(path).sources


def test_a_zip_with_folders_and_permissions_is_read(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("ada/", "ada/assignment/"):
            archive.writestr(name, "")
        info = zipfile.ZipInfo("ada/assignment/linear.py")
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        archive.writestr(info, "x = 1\n")
    got = submissions.read(path)
    assert ({"assignment/linear.py": b"x = 1\n"}, []) == (got.sources, got.ignored)


@pytest.mark.parametrize("count", [199, 200])
def test_200_files_are_graded(count, tmp_path):
    path = make_zip(tmp_path / "a.zip", {f"assignment/m{i}.py": b"" for i in range(count)})
    assert count == len(submissions.read(path).sources)


@pytest.mark.parametrize("kind", FORMATS)
def test_10_mib_are_graded(kind, tmp_path):
    half = b"#" * (5 * 2**20)
    assert 2 == len(
        submissions.read(
            make(kind, tmp_path, {"assignment/a.py": half, "assignment/b.py": half})
        ).sources
    )


# --- what is refused ------------------------------------------------------------------------------


def refusal(path):
    """The sentence of a refusal, with the submission's path replaced by PATH."""
    with pytest.raises(SubmissionRefused) as caught:
        submissions.read(path)
    return str(caught.value).replace(str(path), "PATH")


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    """This is a typing error of the user, not a fault."""
    assert "PATH does not exist" == refusal(tmp_path / "nothing.zip")


def test_a_fifo_is_refused(tmp_path):
    """It is never opened, because opening would wait forever."""
    os.mkfifo(tmp_path / "pipe.zip")
    assert "PATH is neither a file nor a folder" == refusal(tmp_path / "pipe.zip")


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
    for name in ("a.zip", "a.txt"):
        (tmp_path / name).write_bytes(content)
    said = "PATH is damaged or incomplete: its content is neither a zip nor a tar.gz"
    assert said == refusal(tmp_path / "a.zip")
    assert (
        "PATH is not a submission: expected a folder, a .zip, a .tar.gz, a .py or an .ipynb"
        == refusal(tmp_path / "a.txt")
    )


def test_an_archive_that_is_too_large_is_refused(tmp_path):
    """Its size decides before it is read; the file here is sparse and takes no disk space."""
    with (tmp_path / "a.zip").open("wb") as f:
        f.truncate(64 * 2**20 + 1)
    assert "PATH is larger than 64 MiB" == refusal(tmp_path / "a.zip")


SUBMIT = "hand in the zip that `python -m assignment submit` writes, or zip the folder assignment/"
TWO_FOLDERS = "there are 2 assignment/ folders; hand in one"


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("", f"the submission is empty; {SUBMIT}"),
        ("linear.py", f"the submission has no assignment/ folder; got linear.py; {SUBMIT}"),
        ("assignment.py", f"the submission has no assignment/ folder; got assignment.py; {SUBMIT}"),
        (
            "a.pdf hw.zip",
            f"the submission contains another archive, hw.zip, which is not unpacked; {SUBMIT}",
        ),
        ("a/b/Assignment/x.py a/c/assignment/x.py", TWO_FOLDERS),
        ("old/assignment/linear.py new/assignment/linear.py", TWO_FOLDERS),
        (
            "assignment/__init__.py assignment/a.txt",
            "PATH has an assignment/ folder, but no Python file in it",
        ),
        ("assignment", "assignment is a file; it has to be a folder"),
    ],
)
def test_what_has_not_one_assignment_folder_with_modules_is_refused(kind, names, said, tmp_path):
    """Each shape has a sentence of its own, which explains what to do instead."""
    path = make(kind, tmp_path, dict.fromkeys(names.split(), b""))
    path.mkdir(exist_ok=True) if kind == "folder" else None
    assert refusal(path) == said


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "place", ["a/b/assignment/", "Assignment/", "x/ASSIGNMENT/", "a/b/c/d/Assignment/"]
)
def test_one_assignment_folder_is_found_at_any_depth_and_in_any_case(kind, place, tmp_path):
    files = {
        f"{place}linear.py": b"x = 1",
        f"{place}model/a.py": b"",
        "__MACOSX/y/assignment/z.py": b"",
    }
    read = submissions.read(make(kind, tmp_path, files))
    assert sorted(read.sources) == ["assignment/linear.py", "assignment/model/a.py"]
    notes = {note.path: note.reason for note in read.ignored}
    assert notes[f"(the folder {place.rstrip('/')})"] == "taken as assignment/"


@pytest.mark.parametrize("kind", FORMATS)
def test_an_assignment_folder_wins_over_one_further_down(kind, tmp_path):
    """A deeper folder is usually an older copy."""
    got = submissions.read(make(kind, tmp_path, SOURCES | {"old/assignment/linear.py": b"old"}))
    assert (SOURCES, ["old" if kind == "folder" else "old/"]) == (
        got.sources,
        [i.path for i in got.ignored],
    )


ESCAPES = ["../assignment/linear.py", "assignment/../../linear.py", "/assignment/linear.py"]
ESCAPES += ["/etc/passwd", "a/..", ".."]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
@pytest.mark.parametrize("name", [*ESCAPES, "C:/assignment/linear.py"])
def test_a_path_that_leads_out_is_refused(kind, name, tmp_path):
    """It is refused at any place, graded or not, because no honest program writes such a path."""
    path = make(kind, tmp_path, SOURCES | {name: b"x"})
    assert f"the path {name!r} leads out of the submission" == refusal(path)


def test_a_windows_path_that_leads_out_is_refused(tmp_path):
    """Backslashes count as slashes, and the path is shown without control characters."""
    path = make_zip(tmp_path / "a.zip", SOURCES | {"..\\\x1b[31m": b"x"})
    assert r"the path '../\\x1b[31m' leads out of the submission" == refusal(path)


LINK = "assignment/linear.py is not a plain file; only plain files are graded"


@pytest.mark.parametrize("target", ["/etc/passwd", "../other.py", "more.py"])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_a_link_or_a_device_in_a_tar_is_refused(kind, target, tmp_path):
    made = (link("assignment/linear.py", kind, target), None)
    assert LINK == refusal(make_tar(tmp_path / "a.tar.gz", [*SOURCES.items(), made]))


def test_a_link_in_a_zip_is_refused(tmp_path):
    """A zip stores a link as a file with the mode of a link."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("assignment/linear.py")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    assert LINK == refusal(path)


@pytest.mark.parametrize(
    ("place", "target"),
    [
        ("assignment/linear.py", "/etc/passwd"),
        ("assignment/parts", "/etc"),
        ("assignment", "../elsewhere/assignment"),
    ],
)
def test_a_link_in_a_folder_is_refused(place, target, tmp_path):
    """Whether it stands for a file, for a folder, or for assignment/ itself."""
    make_folder(tmp_path / "elsewhere", SOURCES)
    (tmp_path / "ada" / place).parent.mkdir(parents=True)
    (tmp_path / "ada" / place).symlink_to(target)
    said = f"{place} is not a plain file; only plain files are graded"
    assert said == refusal(tmp_path / "ada")


def test_links_outside_assignment_are_only_listed(tmp_path):
    """A virtual environment contains many links."""
    make_folder(tmp_path / "ada", SOURCES)
    (tmp_path / "ada/python").symlink_to("/usr/bin/python3")
    assert [Ignored("python", "outside assignment/")] == submissions.read(tmp_path / "ada").ignored


@pytest.mark.parametrize("name", ["assignment/linear.py", "assignment/notes.txt"])
def test_a_fifo_in_a_folder_never_makes_the_grader_wait(name, tmp_path):
    """The grader runs in a separate process, which is ended if it hangs."""
    make_folder(tmp_path / "ada", {"assignment/more.py": b""})
    os.mkfifo(tmp_path / "ada" / name)
    program = (
        "import sys, pathlib, grader.submission.submissions as s; "
        "print(s.read(pathlib.Path(sys.argv[1])).ignored)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "ada")]
    done = ran(command, cwd=ROOT)
    last = (done.stdout + done.stderr).strip().splitlines()[-1]
    if name.endswith(".py"):
        assert f"grader.base.errors.SubmissionRefused: {LINK}" == last
    else:
        assert "[Ignored(path='assignment/notes.txt', reason='not a Python module')]" == last


@pytest.mark.parametrize("second", ["assignment/linear.py", "./assignment/linear.py"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice_is_refused(second, tmp_path):
    """Programs differ in which copy they use, so a person might not see the graded copy."""
    path = make_tar(tmp_path / "a.tar.gz", [("assignment/linear.py", b"good"), (second, b"bad")])
    assert "assignment/linear.py is in the archive twice" == refusal(path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("assignment/linear.py", "good")
        archive.writestr(second, "bad")
    assert "assignment/linear.py is in the archive twice" == refusal(tmp_path / "a.zip")


@pytest.mark.parametrize("kind", FORMATS)
def test_more_than_200_files_are_refused(kind, tmp_path):
    """Ignored files do not count."""
    path = make(kind, tmp_path, {f"assignment/m{i}.py": b"" for i in range(201)})
    assert "there are more than 200 files to grade under assignment/" == refusal(path)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_long_path_of_a_source_is_refused(kind, tmp_path):
    """A long name or many folders could not be written in every sandbox; the rest may be long."""
    deep = "/".join("a" * 11)
    longest = {"a" * 97 + ".py": b"", f"{deep[:-2]}/b.py"[2:]: b"", "n" * 250 + ".txt": b""}
    fits = make(kind, tmp_path, {f"assignment/{name}": text for name, text in longest.items()})
    assert 2 == len(submissions.read(fits).sources)
    name = f"the name '{'a' * 40}…' in it has 101 bytes"
    for path, said in [
        ("a" * 98 + ".py", name),
        (f"{'a' * 101}/b.py", name),
        (f"{deep[2:]}/b.py", "it is in 11 folders; a source may be in 10"),
    ]:
        refused = make(kind, tmp_path, {f"assignment/{path}": b""}, name=f"b{len(path)}")
        with pytest.raises(SubmissionRefused) as told:
            submissions.read(refused)
        assert f"is too long: {said}" in str(told.value)


def test_most_sources_in_most_folders_fit_into_a_box():
    """Each needs its folders, and a test may make 4096 files."""
    assert handing_in.MAX_FILES * (handing_in.MAX_FOLDERS + 1) < 4096


@pytest.mark.parametrize("kind", FORMATS)
def test_more_than_10_mib_are_refused(kind, tmp_path):
    """The limit applies to all sources together; in a zip they may take a few KiB."""
    half = b"#" * (5 * 2**20)
    path = make(kind, tmp_path, {"assignment/a.py": half, "assignment/b.py": half + b"#"})
    assert "the sources together are more than 10 MiB (at assignment/b.py)" == refusal(path)


def test_a_zip_that_lies_about_a_size_is_refused(tmp_path):
    """11 MiB claim to be 20,000 bytes; only these are read, and the checksum is wrong."""
    path = make_zip(tmp_path / "a.zip", {"assignment/a.py": b"#" * (11 * 2**20)})
    data = path.read_bytes().replace(
        (11 * 2**20).to_bytes(4, "little"), (20_000).to_bytes(4, "little")
    )
    path.write_bytes(data)
    assert "PATH is damaged: Bad CRC-32 for file 'assignment/a.py'" == refusal(path)


def test_a_large_file_that_is_not_graded_is_no_reason_to_refuse(tmp_path):
    """A checkpoint next to the sources is not unpacked."""
    path = make_zip(tmp_path / "a.zip", SOURCES | {"assignment/weights.pt": bytes(20 * 2**20)})
    assert SOURCES == submissions.read(path).sources


@pytest.mark.parametrize("kind", FORMATS)
def test_too_many_entries_are_refused(kind, tmp_path, monkeypatch):
    """Ignored entries count too; the test lowers the limit to stay short."""
    monkeypatch.setattr(archives, "MAX_ENTRIES", 50)
    path = make(kind, tmp_path, SOURCES | {f"assignment/{i}.txt": b"" for i in range(50)})
    assert "PATH has more than 50 entries" == refusal(path)


def test_an_encrypted_zip_is_refused(tmp_path):
    path = make_zip(tmp_path / "a.zip", {"assignment/a.py": b"x"})
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    assert "PATH cannot be unpacked: it is encrypted" == refusal(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "lzma"])
def test_a_zip_of_another_compression_is_refused(method, tmp_path):
    """LZMA may need gigabytes to unpack a byte, and no zip program uses it by default."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("assignment/a.py", "x = 1\n" * 100)
    expected = (
        "PATH cannot be unpacked: its compression is not one that zip programs use by default"
    )
    assert expected == refusal(tmp_path / "a.zip")


def test_a_damaged_zip_is_refused(tmp_path):
    path = make_zip(tmp_path / "a.zip", {"assignment/a.py": bytes(range(256)) * 4})
    data = bytearray(path.read_bytes())
    data[200] ^= 255
    path.write_bytes(data)
    assert refusal(path).startswith("PATH is damaged: ")


@pytest.mark.parametrize("length", [2, 30, -400])
def test_a_damaged_tar_is_refused(length, tmp_path):
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
    path = tmp_path_factory.mktemp("changed") / "a"
    files = SOURCES | {"assignment/a" + "b" * 90 + "/" + "c" * 90 + ".py": b"z"}
    content = (make_zip if kind == "zip" else make_tar)(path, files).read_bytes()
    changed = bytearray(content if kind == "zip" else gzip.decompress(content))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(changed), 6000) - 1))
        some = data.draw(st.binary(min_size=1, max_size=8))
        changed[at : at + len(some)] = some
    path.write_bytes(changed if kind == "zip" else gzip.compress(bytes(changed), 1))
    with suppress(SubmissionRefused):
        assert all(handing_in.SOURCE.fullmatch(name) for name in submissions.read(path).sources)


MODULES = ("assignment/linear.py", "assignment/optimizers.py")
SOLVED = {"assignment/optimizers.py": "x = 1"}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        *(
            ([name], "was it meant as assignment/linear.py, which is missing?")
            for name in (
                *("assignment/Linear.py", "assignment/linear.PY", "assignment/linear (1).py"),
                *("assignment/linear.py.txt", "assignment/two_layers.py", "linear_final_v2.py"),
                *("assignment/linears.py", "assignment/linear.py.bak", "assignment/linear_ada.py"),
                *("assignment/Copy of linear.py", "assignment/line.py"),
            )
        ),
        (["assignment/linear - Copy.py", "assignment/linear.py"], "was it meant as assignment/lin"),
        (["assignment/assignment/linear.py", "assignment/linear.py"], "was it meant as assignment"),
        (["assignment/linear.py", "solution.ipynb"], "was it meant as the solution?"),
        (["assignment/linear.py", "assignment/optimizer.py", "assignment/two_layers.py"], ""),
        (["assignment/linear.py", "assignment/data.py", "assignment/linear_parts.py"], ""),
        (["assignment/linear.py", "notes.txt", "docs/linear.md"], ""),
    ],
)
def test_a_file_that_may_be_meant_as_a_module_is_named(tmp_path, files, told):
    """Nothing is said of a helper if the module with that name is there as well."""
    for path, text in {**dict.fromkeys(files, "y = 1"), **SOLVED}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    problems = (("two_layers", "assignment/linear.py"),)
    read = submissions.read(tmp_path, Accepted(modules=MODULES, problems=problems))
    notes = [note for note in read.ignored if "was it meant as" in note.reason]
    assert [note.path for note in notes] == ([f for f in files if f not in MODULES] if told else [])
    assert all(told in note.reason for note in notes)


# --- modules that are handed in without their folder, and files that a course accepts beside them


TWO = Accepted(modules=("assignment/linear.py", "assignment/model/layers.py"))
ONE = Accepted(modules=("assignment/linear.py",))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("place", "told"),
    [("", "(modules at the top)"), ("src/", "(modules at src)"), ("a/b/c/", "(modules at a/b/c)")],
)
def test_modules_without_their_folder_are_recognised(tmp_path, kind, place, told):
    """Where the modules of the course lie as in assignment/, that folder is taken for it."""
    files = {"linear.py": "x = 1\n", "helpers.py": "y = 1\n", "model/layers.py": "z = 1\n"}
    files = {f"{place}{name}": text for name, text in files.items()} | {"notes.txt": "-"}
    read = submissions.read(make(kind, tmp_path, files), TWO)
    assert sorted(read.sources) == [
        "assignment/helpers.py",
        "assignment/linear.py",
        "assignment/model/layers.py",
    ]
    notes = {note.path: note.reason for note in read.ignored}
    assert notes[told] == "taken as if they were in assignment/"


@pytest.mark.parametrize("kind", FORMATS)
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
    with pytest.raises(SubmissionRefused) as refused:
        submissions.read(make(kind, tmp_path, dict(sorted(files.items()))), TWO)
    assert str(refused.value) == said


@pytest.mark.parametrize("name", ["linear.py", "my solution (2).py"])
def test_a_single_file_is_the_only_module_of_a_course(tmp_path, name):
    """Download tools rename files, so its name does not matter if the course has one module."""
    (tmp_path / name).write_text("x = 1\n")
    assert submissions.read(tmp_path / name, ONE).sources == {"assignment/linear.py": b"x = 1\n"}
    assert submissions.read(tmp_path, ONE).sources == {"assignment/linear.py": b"x = 1\n"}


def test_a_single_file_of_a_larger_course_needs_its_name(tmp_path):
    (tmp_path / "linear.py").write_text("x = 1\n")
    read = submissions.read(tmp_path / "linear.py", TWO)
    assert read.sources == {"assignment/linear.py": b"x = 1\n"}
    shutil.move(tmp_path / "linear.py", tmp_path / "mine.py")
    with pytest.raises(SubmissionRefused, match=r"got mine.py; hand in the zip"):
        submissions.read(tmp_path / "mine.py", TWO)


@pytest.mark.parametrize("kind", FORMATS)
def test_files_that_the_course_allows_are_handed_in(tmp_path, kind):
    """They count as sources; what no pattern names is listed with the patterns."""
    accepted = Accepted(modules=TWO.modules, files=("*.json", "vocab/*.txt"))
    names = ["linear.py", "merges.json", "vocab/en.txt", "vocab/en.json", "a/b.json", "x.txt"]
    names += [".hidden.json", "vocab/.secret.txt", "problems.toml"]
    path = make(kind, tmp_path, {f"assignment/{name}": "1" for name in names})
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
    path = make("zip", tmp_path, {"assignment/linear.py": "", "assignment/a.json": ""})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("assignment/b.json", b"0" * (10 * 2**20 + 1))
    accepted = Accepted(modules=TWO.modules, files=("*.json",))
    with pytest.raises(SubmissionRefused, match="more than 10 MiB"):
        submissions.read(path, accepted)
    assert len(submissions.read(path, TWO).sources) == 1
