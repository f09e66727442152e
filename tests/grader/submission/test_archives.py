"""Hostile archives are refused in one sentence, and every form of an honest one is read.

Python's readers believe what an archive claims, so `SubmissionReader` limits the process that they
run in; the last words of some refusals are its limits.
"""

import gzip
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.base.errors import SubmissionRefused
from grader.submission import archives, submissions
from grader.submission.reader import SubmissionReader
from kit import handing_in
from tests.grader.processes import ran
from tests.grader.sampling import every

ROOT = Path(submissions.__file__).parents[2]
EMPTY_BLOCK = b"\0\0\0\xff\xff"  # an empty Deflate block of five bytes
MIB = bytes(2**20)


@pytest.fixture(scope="module")
def read():
    """Read an archive as a grade does; return the outcome as text."""

    def said(path):
        try:
            return f"{len(reader.read(path).sources)} sources"
        except SubmissionRefused as e:
            return str(e).replace(str(path), "PATH")

    with SubmissionReader() as reader:
        yield said


# --- zips -----------------------------------------------------------------------------------------


def listing(count, name=b"a", *, extra=b"", size=0, packed=0):
    """A zip's table of contents; all its entries begin at the file's first byte."""
    fields = (b"PK\1\2", 20, 20, 0, 8, 0, 0, 0, packed, size, len(name), len(extra), 0, 0, 0, 0, 0)
    return (struct.pack("<4sHHHHHHIIIHHHHHII", *fields) + name + extra) * count


def end(count, size, offset=0, comment=b""):
    """The end-of-central-directory record of a zip, with these values."""
    fields = (b"PK\5\6", 0, 0, count, count, size, offset, len(comment))
    return struct.pack("<4sHHHHIIH", *fields) + comment


def body(packed, size, name=b"assignment/a.py"):
    """An entry's local header and content."""
    fields = (b"PK\3\4", 20, 0, 8, 0, 0, 0, len(packed), size, len(name), 0)
    return struct.pack("<4sHHHHHIIIHH", *fields) + name + packed


def zip_of(table, count, content=b""):
    return content + table + end(count, len(table), len(content))


def sharing():
    """200 sources share one stream of 10 MB: unpacking is cheap once, but not 200 times."""
    content = body(EMPTY_BLOCK * (2 * 2**20), 1)
    names = [b"assignment/a%03d.py" % i for i in range(200)]
    table = b"".join(listing(1, name, size=1, packed=len(content) - 45) for name in names)
    return zip_of(table, 200, content)


def many_ends():
    """The comment is full of records that could each be the end; the last one's table is none."""
    table = listing(3)
    return table + end(1, 46) * 100_000 + end(3, len(table), 0, end(1, 46) * 2900)


def outside():
    """The records point to byte 2**64."""
    extra = struct.pack("<HHQ", 1, 8, 2**64 - 1)
    fields = (b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 1, 1, 15, len(extra), 0, 0, 0, 0, 2**32 - 1)
    table = struct.pack("<4sHHHHHHIIIHHHHHII", *fields) + b"assignment/a.py" + extra
    return zip_of(table, 1)


NULL = "PATH is damaged: the path 'assignment/a.py\\x00.txt' contains a null byte"
LONG = r"the path 'assignment/\\x1b[31mnnnnnnnnnnnnnnnnnnnnnnnn'… is longer than 1024 bytes"
ZIPS = {
    "many entries": (lambda: zip_of(listing(20_000), 65535), "PATH has more than 10000 entries"),
    "many ends": (many_ends, "PATH is damaged: "),
    "a long path": (lambda: zip_of(listing(1, b"assignment/\x1b[31m" + b"n" * 60_000), 1), LONG),
    "a null byte": (lambda: zip_of(listing(1, b"assignment/a.py\0.txt"), 1), NULL),
    "shared content": (sharing, "PATH is damaged: its entries overlap"),
    "outside": (outside, "PATH is damaged: "),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ZIPS)
def test_a_hostile_zip_is_refused(name, tmp_path, read):
    made, said = ZIPS[name]
    (tmp_path / "a.zip").write_bytes(made())
    assert read(tmp_path / "a.zip").startswith(said)


def test_a_tar_with_a_null_byte_in_a_path(tmp_path, read):
    """A record of an extended header could have one; a plain header or a long name cannot."""
    name = b"assignment/a.py\0.txt"
    record = b"%d path=%b\n" % (len(name) + 9, name)
    assert NULL == read(packed(tmp_path / "a.tar.gz", [extended(b"x", record), header("b")]))


# --- tars -----------------------------------------------------------------------------------------


def header(name, kind=b"0", size=0):
    """One block of a tar."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def sealed(block):
    """Recompute the checksum of a block that was changed."""
    block = bytearray(block)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def extended(kind, content):
    """An extended header."""
    return header("x", kind, len(content)) + content + bytes(-len(content) % 512)


def packed(path, pieces, level=1):
    """Write a .tar.gz of these blocks."""
    with gzip.open(path, "wb", compresslevel=level) as f:
        for piece in pieces:
            f.write(piece)
    return path


ASSIGNMENT = header("assignment/a.py")
UNPACKS = "the archive unpacks to more than 256 MiB"
MEMORY = "reading the submission takes more than 512 MiB of memory; "
BOMBS = {
    "one entry without an end": (lambda: [header("d", size=2**60)], UNPACKS),
    "300 MiB after the end": (lambda: [ASSIGNMENT, *[MIB] * 300], UNPACKS),
    "as much as may be": (
        lambda: [header("d", size=250 * 2**20), *[MIB] * 250, ASSIGNMENT],
        "1 sources",
    ),
    "half a million extended headers": (lambda: [header("a", b"x") * 5000] * 100, "PATH is "),
    "half a million entries": (
        lambda: [header("a") * 5000] * 100,
        "PATH has more than 10000 entries",
    ),
    "a pax header of 60 MiB": (lambda: [header("a", b"x", 60 * 2**20), *[MIB] * 60], "PATH is "),
    "a longname of 64 KiB": (
        lambda: [extended(b"L", b"n" * 65536), header("a")],
        f"the path '{'n' * 40}'… is longer than 1024 bytes",
    ),
    "global headers of 100,000 keys": (
        lambda: [
            extended(b"g", b"".join(b"13 k%06d=v\n" % i for i in range(4000))) * 25,
            *(header(f"assignment/a{i}.txt") for i in range(9000)),
        ],
        MEMORY,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", every(3, BOMBS))
def test_a_tar_that_claims_much(bomb, tmp_path, read):
    """A tar is refused once its unpacked size exceeds a limit; a tar at the limit is read."""
    pieces, expected = BOMBS[bomb]
    assert read(packed(tmp_path / "a.tar.gz", pieces())).startswith(expected)


GZIP = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


@pytest.mark.parametrize("blocks", every(2, [4 * 2**20, 12 * 2**20]))  # 20 and 60 MB
def test_a_gzip_file_that_is_nothing(tmp_path, read, blocks):
    nothing = EMPTY_BLOCK * blocks + zlib.compressobj(wbits=-15).flush()
    (tmp_path / "a.tar.gz").write_bytes(GZIP + nothing + bytes(8))
    assert read(tmp_path / "a.tar.gz") == "PATH is damaged: empty file"


def test_64_mib_that_no_program_can_make_smaller_are_read(tmp_path, read):
    """A large checkpoint next to the sources takes little CPU time and hardly any memory."""
    noise = random.Random(0).randbytes(2**20)
    source = header("assignment/a.py", size=5) + b"x = 1" + bytes(507) + bytes(1024)
    pieces = [header("assignment/weights.pt", size=60 * 2**20), *[noise] * 60, source]
    assert "1 sources" == read(packed(tmp_path / "a.tar.gz", pieces, level=0))


# --- valid archives -------------------------------------------------------------------------------

NAMES = ["assignment/linear.py", f"assignment/{'m' * 90}/{'n' * 80}.py"]


@pytest.mark.parametrize("form", ["gnu", "pax", "ustar", "v7"])
def test_a_tar_of_the_tar_command_is_read(form, tmp_path):
    names = NAMES[: 1 if form == "v7" else 2]
    for name in ("notes.txt", *names):
        (tmp_path / "ada" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ada" / name).write_bytes(b"x = 1\n")
    command = ["tar", f"--format={form}", "-czf", tmp_path / "a.tar.gz", "-C", tmp_path, "ada"]
    subprocess.run(command, check=True)
    assert submissions.read(tmp_path / "a.tar.gz").sources == dict.fromkeys(names, b"x = 1\n")


def test_a_tar_with_a_broken_header_is_damaged(tmp_path, read):
    """`tarfile` alone would take it for the end, and what follows for nothing."""
    path = packed(tmp_path / "a.tar.gz", [ASSIGNMENT, header("b")[:-1] + b"x", header("c")])
    assert read(path) == "PATH is damaged: bad checksum"


def test_a_changed_byte_in_a_source_is_noticed(tmp_path):
    """The checksum lies at the end of the gzip file, after the end of the tar."""
    path = packed(
        tmp_path / "a.tar.gz",
        [header("assignment/a.py", size=6), b"x = 1\n", bytes(506 + 300 * 512)],
        level=0,
    )
    data = path.read_bytes()
    assert data.count(b"x = 1\n") == 1
    path.write_bytes(data.replace(b"x = 1\n", b"x = 2\n"))
    with pytest.raises(SubmissionRefused, match="is damaged: CRC check failed"):
        submissions.read(path)


@settings(max_examples=80)
@given(data=st.data())
def test_a_tar_with_any_headers_is_read_or_refused(data, tmp_path_factory):
    """Headers of any type, size and content with valid checksums give sources or one sentence."""
    draw, one_of = data.draw, st.sampled_from
    kinds = [bytes([i]) for i in b"0\x0001234567xXgLKSDMV"]
    names = [NAMES[0], f"./{NAMES[0]}", "a", "assignment"]
    sizes = [b"00000000012\0", b"99999999999\0", b"\x80" + b"\xff" * 11, b"\xff" * 12, bytes(12)]
    contents = [b"", b"10 path=ab\n", b"9 size=4\n", b"5 a=b\n", b"x" * 600, bytes(10)]
    pieces = []
    for _ in range(draw(st.integers(1, 5))):
        block = bytearray(header(draw(one_of(names)), draw(one_of(kinds))))
        if draw(st.booleans()):
            block[124:136] = draw(one_of(sizes))
        if draw(st.booleans()):
            at = draw(st.integers(0, 511))
            some = draw(st.binary(min_size=1, max_size=8))[: 512 - at]
            block[at : at + len(some)] = some
        content = draw(one_of(contents))
        pieces += [sealed(block), content, bytes(-len(content) % 512)]
    path = packed(tmp_path_factory.getbasetemp() / "any.tar.gz", pieces)
    with suppress(SubmissionRefused):
        assert all(handing_in.SOURCE.fullmatch(name) for name in submissions.read(path).sources)


# --- folders --------------------------------------------------------------------------------------


def test_a_name_in_another_encoding_is_listed(tmp_path):
    """Old zip programs leave such names; they cause no error and are shown in printable form."""
    folder = os.fsencode(tmp_path / "ada/assignment")
    os.makedirs(folder)
    (tmp_path / "ada/assignment/linear.py").write_bytes(b"x = 1\n")
    with open(os.path.join(folder, b"gr\xf6\xdfe.py"), "wb"):
        pass
    read = submissions.read(tmp_path / "ada")
    assert [(i.path, i.reason) for i in read.ignored] == [
        (r"assignment/gr\udcf6\udcdfe.py", "its name cannot be imported")
    ]


AS_NOBODY = """
import os, pathlib
from grader.base import errors
from grader.submission import submissions
if not os.geteuid():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for path in sorted(pathlib.Path().iterdir()):
    try:
        print([i.path for i in submissions.read(path).ignored])
    except errors.SubmissionRefused as e:
        print(e)
"""


def test_what_may_not_be_read_is_named():
    """The sentence names the closed path; folders next to assignment/ are never opened."""
    closed = ("a", "b/assignment", "c/assignment/linear.py", "d/assignment/parts", "e/data")
    # Other users cannot read the temporary folders that pytest makes.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for path in (Path(folder, name) for name in closed):
            top = Path(folder, path.relative_to(folder).parts[0])
            for name in ("assignment/parts", "data"):
                (top / name).mkdir(parents=True)
            (top / "assignment/linear.py").write_bytes(b"x = 1\n")
            path.chmod(0)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = ran([sys.executable, "-c", AS_NOBODY], cwd=folder, env=environment)
        for name in closed:
            Path(folder, name).chmod(0o755)
    said = [f"{name} cannot be read: Permission denied" for name in closed[:4]]
    assert (done.stdout.splitlines(), done.stderr) == ([*said, "['data']"], "")


def test_what_became_a_link_after_it_was_listed_is_not_read(tmp_path):
    """The owner of a folder on the way can put a link to a file of ours in its place."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "helper.py").write_text("SECRET = 1")
    sub = tmp_path / "eve" / "assignment" / "sub"
    sub.mkdir(parents=True)
    (sub / "helper.py").write_text("")
    with ExitStack() as stack:
        found = {item.path: item for item in archives.entries(tmp_path / "eve", stack)}
        sub.rename(tmp_path / "away")
        sub.symlink_to(tmp_path / "ours")
        with pytest.raises(SubmissionRefused, match="was replaced while it was being read"):
            found["assignment/sub/helper.py"].open()


@pytest.mark.parametrize("kind", ["archive", "folder"])
def test_a_submission_that_became_a_link_is_refused_in_a_class(tmp_path, kind):
    """One that a person names may be a link."""
    real = tmp_path / "ours" / "work"
    real.mkdir(parents=True)
    (real / "assignment").mkdir()
    (real / "assignment" / "linear.py").write_text("x = 1")
    if kind == "archive":
        shutil.make_archive(str(real), "zip", real)
        real = real.with_suffix(".zip")
    link = tmp_path / "eve" / real.name
    link.parent.mkdir()
    link.symlink_to(real)
    assert submissions.read(link).sources == {"assignment/linear.py": b"x = 1"}
    with pytest.raises(SubmissionRefused, match="while it was being read"):
        submissions.read(link, follow=False)
