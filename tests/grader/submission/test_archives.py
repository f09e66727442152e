"""Hostile archives are refused in one sentence, within tight limits on time and memory.

A separate process reads every archive, and its CPU time and memory are then checked. The limits
have a wide margin: each archive takes less than a second and 20 MiB here. Without the check that it
attacks, reading an archive takes several times the limit or never ends.
"""

import gzip
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.base.errors import SubmissionRefused
from grader.submission import archives, submissions
from kit import handing_in

MAX_SECONDS = 4  # seconds of CPU time, with margin for a slow or shared CPU
MAX_MEMORY = 100 * 2**20
PROGRAM = """
import json, pathlib, resource, sys
from grader.base import errors
from grader.submission import submissions
before = resource.getrusage(resource.RUSAGE_SELF)
try:
    said = f"{len(submissions.read(pathlib.Path(sys.argv[1])).sources)} sources"
except errors.SubmissionRefused as e:
    said = str(e)
after = resource.getrusage(resource.RUSAGE_SELF)
seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps([said, seconds, 1024 * (after.ru_maxrss - before.ru_maxrss)]))
"""
ROOT = Path(submissions.__file__).parents[2]
EMPTY_BLOCK = b"\0\0\0\xff\xff"  # an empty Deflate block of five bytes
MIB = bytes(2**20)


def read(path):
    """Read an archive in a separate process, check the cost, and return the outcome as text."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    said, seconds, memory = json.loads(done.stdout)
    assert seconds < MAX_SECONDS, said
    assert memory < MAX_MEMORY, said
    return said.replace(str(path), "PATH")


# --- zips -----------------------------------------------------------------------------------------


def listing(count, name=b"a", *, extra=b"", size=0, packed=0):
    """A zip's table of contents; all its entries begin at the file's first byte."""
    fields = (b"PK\1\2", 20, 20, 0, 8, 0, 0, 0, packed, size, len(name), len(extra), 0, 0, 0, 0, 0)
    return (struct.pack("<4sHHHHHHIIIHHHHHII", *fields) + name + extra) * count


def end(count, size, offset=0, comment=b""):
    """The end-of-central-directory record of a zip, with these values."""
    return (
        struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, size, offset, len(comment))
        + comment
    )


def end64(count, size):
    """The two zip64 records before the end record, for counts that do not fit into 16 bits."""
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, 0)
    return record + struct.pack("<4sIQI", b"PK\6\7", 0, size, 1)


def body(packed, size, name=b"assignment/a.py"):
    """An entry's local header and content."""
    return (
        struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 8, 0, 0, 0, len(packed), size, len(name), 0)
        + name
        + packed
    )


MANY = 1_300_000
DIRECTORY = MANY * (46 + 1)


@pytest.mark.parametrize(
    "records",
    [end(65535, DIRECTORY), end(1, DIRECTORY), end64(MANY, DIRECTORY) + end(65535, 2**32 - 1)],
    ids=["as it is", "said to be one", "zip64"],
)
def test_a_zip_of_a_million_entries(records, tmp_path):
    """60 MB of names are refused because of the size of the table, before the table is read."""
    with (tmp_path / "a.zip").open("wb") as f:
        f.write(listing(MANY))
        f.write(records)
    assert "PATH has more than 10000 entries" == read(tmp_path / "a.zip")


def test_a_zip_with_a_table_of_contents_just_small_enough(tmp_path):
    """The entries of a table of 4 MiB are counted before any object is made of them."""
    table = listing(80_000)
    (tmp_path / "a.zip").write_bytes(table + end(1, len(table)))
    assert "PATH has more than 10000 entries" == read(tmp_path / "a.zip")


def test_a_zip_with_many_ends(tmp_path):
    """The comment is full of records that could each be the end.

    The last one counts, and its table of contents does not exist.
    """
    table = listing(3)
    comment = end(1, 46) * 2900
    (tmp_path / "a.zip").write_bytes(table + end(1, 46) * 100_000 + end(3, len(table), 0, comment))
    assert read(tmp_path / "a.zip").startswith("PATH is damaged: ")


def test_a_zip_whose_entries_have_endless_extra_fields(tmp_path):
    """The fields hold only empty records, which zipfile reads in quadratic time."""
    table = listing(60, extra=struct.pack("<HH", 9, 0) * 16_000)
    (tmp_path / "a.zip").write_bytes(table + end(60, len(table)))
    assert "PATH is damaged: an entry has an extra field of 64000 bytes" == read(tmp_path / "a.zip")


def test_a_zip_with_a_long_path(tmp_path):
    """The path has 60,000 characters, and the sentence quotes only its beginning."""
    table = listing(1, b"assignment/\x1b[31m" + b"n" * 60_000)
    (tmp_path / "a.zip").write_bytes(table + end(1, len(table)))
    expected = r"the path 'assignment/\\x1b[31mnnnnnnnnnnnnnnnnnnnnnnnn'… is longer than 1024 bytes"
    assert expected == read(tmp_path / "a.zip")


NULL = "PATH is damaged: the path 'assignment/a.py\\x00.txt' contains a null byte"


def test_a_zip_with_a_null_byte_in_a_path(tmp_path):
    """It is in the name, or in the extra field that replaces the name."""
    name = b"assignment/a.py\0.txt"
    field = struct.pack("<HHBI", 0x7075, 5 + len(name), 1, zlib.crc32(b"a")) + name
    before = struct.pack("<HHI", 9, 4, 0)
    for table in (listing(1, name), listing(1, b"assignment/a.py", extra=before + field)):
        (tmp_path / "a.zip").write_bytes(table + end(1, len(table)))
        assert NULL == read(tmp_path / "a.zip")


def test_a_tar_with_a_null_byte_in_a_path(tmp_path):
    """A record of an extended header and a long name could have one; a plain header cannot."""
    name = b"assignment/a.py\0.txt"
    record = b"%d path=%b\n" % (len(name) + 9, name)
    for more in (extended(b"x", record), extended(b"L", name + b"\0")):
        assert NULL == read(packed(tmp_path / "a.tar.gz", [more, header("b")]))


def test_a_zip_whose_entries_share_their_content(tmp_path):
    """200 sources share one stream of 60 MB: unpacking is cheap once, but not 200 times."""
    stream = EMPTY_BLOCK * (12 * 2**20)
    content = body(stream, 1)
    table = b"".join(
        listing(1, b"assignment/a%03d.py" % i, size=1, packed=len(stream)) for i in range(200)
    )
    (tmp_path / "a.zip").write_bytes(content + table + end(200, len(table), len(content)))
    assert "PATH is damaged: its entries overlap" == read(tmp_path / "a.zip")


def test_a_zip_whose_content_is_much_longer_than_what_it_gives(tmp_path):
    """60 MB of empty blocks unpack to one byte."""
    stream = EMPTY_BLOCK * (12 * 2**20)
    content, table = body(stream, 1), listing(1, b"assignment/a.py", size=1, packed=len(stream))
    (tmp_path / "a.zip").write_bytes(content + table + end(1, len(table), len(content)))
    assert "PATH is damaged: assignment/a.py takes more space packed than unpacked" == read(
        tmp_path / "a.zip"
    )


def test_a_zip_whose_records_point_outside_the_file(tmp_path):
    """The records point to byte 2**64."""
    extra = struct.pack("<HHQ", 1, 8, 2**64 - 1)
    fields = (b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 1, 1, 15, len(extra), 0, 0, 0, 0, 2**32 - 1)
    table = struct.pack("<4sHHHHHHIIIHHHHHII", *fields) + b"assignment/a.py" + extra
    (tmp_path / "a.zip").write_bytes(table + end(1, len(table)))
    assert read(tmp_path / "a.zip").startswith("PATH is damaged: ")


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


def sparse(stored):
    """A sparse file as GNU tar wrote it: `stored` bytes in the archive and none when unpacked."""
    block = bytearray(header("big", b"S"))
    block[124:136] = b"\x80" + stored.to_bytes(11, "big")
    block[483:495] = b"%011o\0" % 0
    return sealed(block)


SPARSE = "PATH is damaged: it contains a sparse file, which programs write only on request"
RECORDS = b"6 a=b\n" * 100
ASSIGNMENT = header("assignment/a.py")
UNPACKS = "the archive unpacks to more than 256 MiB"
BOMBS = {
    "one entry of a GiB": (lambda: [header("d", size=2**30), *[MIB] * 300], UNPACKS),
    "300 MiB after the end": (lambda: [ASSIGNMENT, *[MIB] * 300], UNPACKS),
    "as much as may be": (
        lambda: [header("d", size=250 * 2**20), *[MIB] * 250, ASSIGNMENT],
        "1 sources",
    ),
    "half a million entries": (
        lambda: [header("a") * 5000] * 100,
        "PATH has more than 10000 entries",
    ),
    "half a million extended headers": (
        lambda: [header("a", b"x") * 5000] * 100,
        "PATH is damaged: its extended headers are more than 8 MiB",
    ),
    "a pax header of 60 MiB": (
        lambda: [header("a", b"x", 60 * 2**20), *[MIB] * 60],
        "PATH is damaged: an entry has an extended header of 62914560 bytes",
    ),
    "a longname of 60 MiB": (
        lambda: [header("a", b"L", 60 * 2**20), *[MIB] * 60],
        "PATH is damaged: an entry has an extended header of 62914560 bytes",
    ),
    "pax headers full of records": (
        lambda: [extended(b"x", RECORDS) * 180_000],
        "PATH is damaged: its extended headers are more than 8 MiB",
    ),
    "a pax header of digits": (
        lambda: [extended(b"x", b"1" * 65536), ASSIGNMENT],
        "PATH is damaged: invalid header",
    ),
    "global headers of 100,000 keys": (
        lambda: [
            extended(b"g", b"".join(b"13 k%06d=v\n" % i for i in range(4000))) * 25,
            *(header(f"assignment/a{i}.txt") for i in range(9000)),
        ],
        "PATH has an assignment/ folder, but no Python file in it",
    ),
    "a longname of 64 KiB": (
        lambda: [extended(b"L", b"n" * 65536), header("a")],
        f"the path '{'n' * 40}'… is longer than 1024 bytes",
    ),
    "a sparse file of 4 GiB": (lambda: [sparse(4 * 2**30), *[MIB] * 300], SPARSE),
    "a sparse file of another kind": (
        lambda: [extended(b"x", b"22 GNU.sparse.major=1\n"), ASSIGNMENT],
        SPARSE,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_tar_that_claims_much(bomb, tmp_path):
    """A tar is refused once a claimed or unpacked size exceeds a limit.

    A tar at the limit is read.
    """
    pieces, expected = BOMBS[bomb]
    assert expected == read(packed(tmp_path / "a.tar.gz", pieces()))


def test_a_gzip_file_in_millions_of_parts(tmp_path):
    """Each part is empty."""
    part = gzip.compress(b"", mtime=0)
    (tmp_path / "a.tar.gz").write_bytes(part * (60 * 2**20 // len(part)))
    assert "PATH is damaged: it is a gzip file of more than 10000 parts" == read(
        tmp_path / "a.tar.gz"
    )


GZIP = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def test_a_gzip_file_that_is_nothing_for_60_mb(tmp_path):
    """The file has as many empty blocks as fit, followed by a correct end."""
    nothing = EMPTY_BLOCK * (12 * 2**20) + zlib.compressobj(wbits=-15).flush()
    (tmp_path / "a.tar.gz").write_bytes(GZIP + nothing + bytes(8))
    expected = "the submission is empty; "
    assert read(tmp_path / "a.tar.gz").startswith(expected)


def code_tables():
    """Eight Deflate blocks without content, each with its own code tables.

    Eight of them end on a whole byte.
    """
    fields = [(0, 1), (2, 2), (0, 5), (0, 5), (14, 4), *((int(i in (2, 17)), 3) for i in range(18))]
    # Code lengths 1, 0 × 255, 1, 1, followed by the end of the block.
    fields += [(0, 1), (1, 1), (127, 7), (1, 1), (106, 7), (0, 1), (0, 1), (1, 1)]
    value = bits = 0
    for field, width in fields * 8:
        value |= field << bits
        bits += width
    return value.to_bytes(bits // 8, "little")


@pytest.mark.slow
def test_a_gzip_file_of_nothing_but_code_tables(tmp_path):
    """60 MB of code tables cost zlib five times as much as 256 MiB of content.

    The limit on CPU time ends the attempt.
    """
    tables = code_tables()
    assert zlib.decompressobj(wbits=-15).decompress(tables * 100) == b""
    (tmp_path / "a.tar.gz").write_bytes(GZIP + tables * (60 * 2**20 // len(tables)))
    said = read(tmp_path / "a.tar.gz")
    assert said == (
        "the archive takes too long to unpack: "
        "ordinary programs do not pack this way; hand in a .zip"
    )


def test_64_mib_that_no_program_can_make_smaller_are_read(tmp_path):
    """A large checkpoint next to the sources takes little CPU time and hardly any memory."""
    noise = random.Random(0).randbytes(2**20)
    source = header("assignment/a.py", size=5) + b"x = 1" + bytes(507) + bytes(1024)
    pieces = [header("assignment/weights.pt", size=60 * 2**20), *[noise] * 60, source]
    assert "1 sources" == read(packed(tmp_path / "a.tar.gz", pieces, level=0))


# --- valid archives -------------------------------------------------------------------------------

NAMES = [
    "assignment/linear.py",
    "./assignment/linear.py",
    "ada/assignment/" + "m" * 90 + "/" + "n" * 80 + ".py",
    "ada/assignment/" + "m" * 200 + ".py",
    "ada/" + "/".join(["d" * 30] * 12) + "/x",
    "ada/assignment/größe.py",
    "ada/assignment/\N{SNOWMAN}" + "é" * 150,
]


@pytest.mark.parametrize(
    "form",
    [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT],
    ids=["ustar", "gnu", "pax"],
)
def test_every_form_of_a_tar_is_read_as_tarfile_reads_it(form, tmp_path):
    """The names, kinds and bytes equal those that tarfile reads.

    The tar has long names, other alphabets, folders, links, devices and fractional times.
    """
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=form, pax_headers={"comment": "a commit"}) as archive:
        for i, name in enumerate(NAMES):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 100 * i + 7, 1.5 * i
            with suppress(ValueError):  # ustar has no field for it
                archive.addfile(info, io.BytesIO(b"x" * info.size))
        for name, kind in [
            ("ada/assignment", b"5"),
            ("l" * 120, b"2"),
            ("h", b"1"),
            ("fifo", b"6"),
            ("old/", b"\0"),
        ]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "t" * 120 if kind == b"2" else "t"
            with suppress(ValueError):
                archive.addfile(info)
    with tarfile.open(path) as archive, path.open("rb") as file:
        kinds = {"0": "file", "\0": "file", "5": "folder", "1": "link", "2": "link", "6": "special"}
        expected = [
            (m.name, kinds[m.type.decode()], m.isreg() and archive.extractfile(m).read())
            for m in archive
        ]
        got = list(archives.in_tar(archives._UnpackedStream(archives._gunzipped(file))))
    assert [e[:2] for e in expected] == [(e.path, e.kind) for e in got]
    kept = {e.path: e.open().read() for e in got if archives._use_of(e.path) == "likely"}
    assert kept == {path: content for path, _, content in expected if path in kept}
    assert len(kept) >= 3


def test_a_tar_of_gnu_tars_own_making_is_read(tmp_path):
    """The tar command writes folders and a file above assignment/."""
    (tmp_path / "ada/assignment").mkdir(parents=True)
    (tmp_path / "ada/assignment/linear.py").write_bytes(b"x = 1\n")
    (tmp_path / "ada/notes.txt").write_bytes(b"")
    for form in ("gnu", "pax", "v7"):
        command = ["tar", f"--format={form}", "-czf", tmp_path / "a.tar.gz", "-C", tmp_path, "ada"]
        subprocess.run(command, check=True)
        assert submissions.read(tmp_path / "a.tar.gz").sources == {
            "assignment/linear.py": b"x = 1\n"
        }


def test_a_changed_byte_in_a_source_is_noticed(tmp_path):
    """The checksum lies at the end of the gzip file, after the end of the tar."""
    path = packed(
        tmp_path / "a.tar.gz",
        [header("assignment/a.py", size=6), b"x = 1\n", bytes(506 + 10 * 512)],
        level=0,
    )
    data = path.read_bytes()
    assert data.count(b"x = 1\n") == 1
    path.write_bytes(data.replace(b"x = 1\n", b"x = 2\n"))
    with pytest.raises(SubmissionRefused, match="incorrect data check"):
        submissions.read(path)


@settings(max_examples=80)
@given(data=st.data())
def test_a_tar_with_any_headers_is_read_or_refused(data, tmp_path_factory):
    """Headers of any type, size and content with valid checksums give sources or one sentence."""
    kinds = [bytes([i]) for i in b"0\x0001234567xXgLKSDMV"]
    pieces = []
    for _ in range(data.draw(st.integers(1, 5))):
        block = bytearray(
            header(
                data.draw(st.sampled_from([*NAMES[:2], "a", "assignment"])),
                data.draw(st.sampled_from(kinds)),
            )
        )
        if data.draw(st.booleans()):
            size = data.draw(
                st.sampled_from(
                    [
                        b"00000000012\0",
                        b"99999999999\0",
                        b"\x80" + b"\xff" * 11,
                        b"\xff" * 12,
                        bytes(12),
                    ]
                )
            )
            block[124:136] = size
        if data.draw(st.booleans()):
            at = data.draw(st.integers(0, 511))
            some = data.draw(st.binary(min_size=1, max_size=8))[: 512 - at]
            block[at : at + len(some)] = some
        content = data.draw(
            st.sampled_from(
                [b"", b"10 path=ab\n", b"9 size=4\n", b"5 a=b\n", b"x" * 600, bytes(10)]
            )
        )
        pieces += [sealed(block), content, bytes(-len(content) % 512)]
    path = packed(tmp_path_factory.mktemp("any") / "a.tar.gz", pieces)
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
import os, pathlib, sys
from grader.base import errors
from grader.submission import submissions
if not os.geteuid():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print([i.path for i in submissions.read(pathlib.Path("ada")).ignored])
except errors.SubmissionRefused as e:
    print(e)
"""


@pytest.mark.parametrize(
    ("closed", "said"),
    [
        ("ada/assignment/parts", "ada/assignment/parts cannot be read: Permission denied"),
        ("ada/assignment/linear.py", "ada/assignment/linear.py cannot be read: Permission denied"),
        ("ada/assignment", "ada/assignment cannot be read: Permission denied"),
        ("ada", "ada cannot be read: Permission denied"),
        ("ada/data", "['data']"),
    ],
)
def test_what_may_not_be_read_is_named(closed, said):
    """The sentence names the closed path; folders next to assignment/ are never opened."""
    # Other users cannot read the temporary folders that pytest makes.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name in ("ada/assignment/parts", "ada/data"):
            (Path(folder) / name).mkdir(parents=True)
        (Path(folder) / "ada/assignment/linear.py").write_bytes(b"x = 1\n")
        (Path(folder) / closed).chmod(0)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", AS_NOBODY]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
        (Path(folder) / closed).chmod(0o755)
    assert (done.stdout, done.stderr) == (f"{said}\n", "")


def test_zipfile_still_reads_the_table_through_the_file_that_it_is_given(tmp_path, monkeypatch):
    """`_CheckedZip` relies on this behaviour of zipfile in every version of Python."""
    looked_at = []
    monkeypatch.setattr(archives, "_check_directory", lambda data: looked_at.append(len(data)))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("assignment/a.py", "")
    submissions.read(tmp_path / "a.zip")
    assert looked_at == [46 + len("assignment/a.py")]


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
