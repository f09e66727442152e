"""Hostile inputs for everything that reads what a stranger wrote.

Each function of SUBMISSIONS writes one into a folder and returns its path; the value is what its
refusal says, or the total size of what is read. `OTHERS` are inputs for other readers, with the
function that reads each. As a program, this reads one input, with limits on itself.

    python -m tests.grader.hostile_inputs.inputs NAME EMPTY_FOLDER
"""

import io
import json
import os
import resource
import sys
import tarfile
import threading
import zipfile
import zlib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from grader.base.errors import EndsCommand
from grader.classroom import (
    canvas_api,
    canvas_table,
    classroom50,
    database,
    gradescope_scores,
    intake,
    roster,
    tables,
)
from grader.course import policies
from grader.course.policies import Policy
from grader.gradescope import submission_metadata
from grader.report import json_report
from grader.submission.reader import SubmissionReader
from kit.handing_in import Accepted

MODULE = "assignment/activations.py"
ACCEPTED = Accepted((MODULE,), ("*.json", "*/*.json"))
CPU_SECONDS = 30  # of this program; about 2 are used
MEMORY_BYTES = 2 * 2**30
SUBMISSIONS = {}
OTHERS = {}


def submission(outcome):
    """Mark a function that writes a submission: what is said about it, or how much is read."""

    def marked(function):
        SUBMISSIONS[function.__name__] = function, outcome
        return function

    return marked


def other(reader, outcome):
    """Mark a function that writes another input: the function that reads it, and what is said."""

    def marked(function):
        OTHERS[function.__name__] = function, reader, outcome
        return function

    return marked


# --- notebooks ------------------------------------------------------------------------------------


def cell(text, **more):
    """A code cell."""
    return {"cell_type": "code", "metadata": {}, "outputs": [], "source": text, **more}


def notebook(folder, *cells, text=None):
    """A notebook of these cells, or with this text."""
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    path = folder / "a.ipynb"
    path.write_text(json.dumps(whole, separators=(",", ":")) if text is None else text)
    return path


@submission("none of its cells is a module")
def notebook_with_spaces_in_its_first_line(folder):
    return notebook(folder, cell(f"%%writefile a{' ' * 2**20}b\nx = 1\n"))


@submission("more than 512 MiB of memory")
def notebook_of_ten_million_objects(folder):
    return zipped(folder, {"a.ipynb": notebook(folder, cell("", metadata={"a": [{}] * 10**7}))})


@submission(9_360_001)
def notebook_of_180_000_cells_that_append(folder):
    first = cell(f"%%writefile {MODULE}\n" + "#" * 9_000_000 + "\n")
    return notebook(folder, first, *[cell(f"%%file -a {MODULE}\n#")] * 180_000)


@submission("together are more than 10 MiB")
def notebook_of_11_mib_of_modules(folder):
    return notebook(folder, *[cell(f"%%file -a {MODULE}\n" + "#" * 2**20)] * 11)


@submission("is no valid notebook")
def notebook_of_a_million_levels(folder):
    return notebook(folder, text='{"cells":' + "[" * 10**6)


@submission("is no valid notebook")
def notebook_with_a_number_of_a_million_digits(folder):
    return notebook(folder, text='{"cells":' + "1" * 10**6 + "}")


@submission("is larger than 32 MiB")
def notebook_of_32_mib_and_a_byte(folder):
    return zipped(folder, {"a.ipynb": b" " * (32 * 2**20 + 1)})


@submission(6)
def notebook_of_32_mib_of_wide_characters(folder):
    text = "\N{GRINNING FACE}" + "x" * (31 * 2**20)
    return notebook(folder, cell(f"%%file {MODULE}\nx = 1"), {"cell_type": "raw", "source": text})


@submission("more than 200 files")
def notebook_of_201_modules(folder):
    return notebook(folder, *[cell(f"%%file assignment/a{n}.py\n") for n in range(201)])


@submission("is too long: the name")
def notebook_with_a_name_of_a_million_letters(folder):
    return notebook(folder, cell(f"%%file assignment/{'a' * 10**6}.py\n"))


# --- names ----------------------------------------------------------------------------------------


def zipped(folder, files):
    """A zip of these files, and of a module that comes first."""
    path = folder / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content.read_bytes() if isinstance(content, Path) else content)
    return path


def named(folder, *names):
    """A zip of a module and of data files with these names below assignment/."""
    return zipped(folder, {MODULE: b"", **{f"assignment/{name}": b"{}" for name in names}})


def tarred(folder, *members):
    """A .tar.gz of members, each a TarInfo or a name, and a content."""
    path = folder / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT, encoding="latin-1") as archive:
        for member, content in [(MODULE, b""), *members]:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@submission("has a character that cannot be printed")
def name_that_is_not_utf_8(folder):
    return tarred(folder, ("assignment/\xff\xfe.json", b"{}"))


@submission("has a character that cannot be printed")
def name_that_is_not_utf_8_in_a_folder(folder):
    (folder / "a" / "assignment").mkdir(parents=True)
    (folder / "a" / MODULE).write_bytes(b"")
    Path(os.fsdecode(bytes(folder / "a" / "assignment") + b"/\xff.json")).write_text("{}")
    return folder / "a"


@submission("has 385 bytes; the name of a file or of its folder may have 100")
def name_of_95_emoji(folder):
    return named(folder, "\N{GRINNING FACE}" * 95 + ".json")


@submission("has a character that cannot be printed")
def name_with_a_line_end(folder):
    return named(folder, "b.json 2\n{}assignment/c.json")


@submission("has a character that cannot be printed")
def name_that_is_written_from_right_to_left(folder):
    return named(folder, "\u202eb.json")


@submission(f"{MODULE} is both a file and a folder")
def module_that_is_a_folder_too(folder):
    return named(folder, "activations.py/y.json")


@submission(f"{MODULE} is both a file and a folder")
def folder_with_the_name_of_a_missing_module(folder):
    files = {"assignment/other.py": b"", f"{MODULE}/y.json": b"{}"}
    return zipped(folder, files)


@submission("assignment/x.json is both a file and a folder")
def data_file_that_is_a_folder_too(folder):
    return named(folder, "x.json", "x.json/y.json")


@submission(2)
def name_with_two_slashes(folder):
    return named(folder, "x.json", "/x.json")


@submission("leads out of the submission")
def name_that_leads_out(folder):
    return named(folder, "../../x.json")


@submission("contains a null byte")
def name_with_a_null_byte(folder):
    path = named(folder, "x0.json")
    path.write_bytes(path.read_bytes().replace(b"x0", b"x\0"))
    return path


@submission("is longer than 1024 bytes")
def name_of_1025_bytes(folder):
    return named(folder, "x" * 1025)


@submission("is damaged: an entry has no name")
def name_of_no_bytes(folder):
    path = named(folder, "x.json")
    content = bytearray(path.read_bytes())
    entry, end = content.rindex(b"PK\1\2"), content.rindex(b"PK\5\6")
    name = len("assignment/x.json")
    content[end + 12 : end + 16] = (end - content.index(b"PK\1\2") - name).to_bytes(4, "little")
    content[entry + 28 : entry + 30] = bytes(2)
    del content[entry + 46 : entry + 46 + name]
    path.write_bytes(content)
    return path


@submission("is damaged: 'utf-8' codec can't decode byte 0xff")
def name_that_only_claims_to_be_utf_8(folder):
    path = named(folder, "\N{LATIN SMALL LETTER E WITH ACUTE}.json")
    path.write_bytes(path.read_bytes().replace("\xe9".encode(), b"\xff\xff"))
    return path


# --- archives and folders -------------------------------------------------------------------------


@submission("has more than 10000 entries")
def zip_of_10_001_entries(folder):
    return named(folder, *(f"{n}.txt" for n in range(10_000)))


@submission("together are more than 10 MiB")
def zip_bomb(folder):
    return zipped(folder, {MODULE: b"#" * (10 * 2**20 + 1)})


@submission("is larger than 64 MiB")
def archive_of_64_mib_and_a_byte(folder):
    path = folder / "a.zip"
    with path.open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    return path


@submission("unpacks to more than 256 MiB")
def tar_bomb(folder):
    members = [(f"{n}.bin", bytes(16 * 2**20)) for n in range(17)]
    return tarred(folder, *members)


@submission("is longer than 1024 bytes")
def tar_with_a_header_of_a_mebibyte(folder):
    info = tarfile.TarInfo("././@LongLink")
    info.type = tarfile.GNUTYPE_LONGNAME
    return tarred(folder, (info, b"a" * 2**20), ("b", b""))


@submission("is not a plain file")
def pipe_instead_of_a_module(folder):
    (folder / "a" / "assignment").mkdir(parents=True)
    os.mkfifo(folder / "a" / MODULE)
    return folder / "a"


@submission("is not a plain file")
def link_to_an_endless_device(folder):
    (folder / "a" / "assignment").mkdir(parents=True)
    (folder / "a" / MODULE).symlink_to("/dev/zero")
    return folder / "a"


@submission("together are more than 10 MiB")
def sparse_module_of_a_tebibyte(folder):
    (folder / "a" / "assignment").mkdir(parents=True)
    with (folder / "a" / MODULE).open("wb") as file:
        file.truncate(2**40)
    return folder / "a"


# --- a class's folder and tables ------------------------------------------------------------------


def put(folder, name, content):
    """Write a text or bytes into a file, and return its path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@other(lambda folder: intake.recognise(folder, "{any}_{any}_{any}_{any}_{id}x.zip"), "nothing to")
def name_of_250_underscores(folder):
    put(folder, f"{'_' * 250}.zip", "")
    return folder


@other(intake.recognise, "it has more than 1,000,000 values")
def export_of_a_million_values(folder):
    put(folder, "submission_metadata.yml", "a: [" + "b," * 10**6 + "]")
    return folder


@other(intake.recognise, "exceeded maximum nesting depth")
def export_of_many_levels(folder):
    put(folder, "submission_metadata.yml", "a: " + "[" * 10**6)
    return folder


@other(intake.recognise, "is larger than 64 MiB")
def export_of_64_mib_and_a_byte(folder):
    put(folder, "submission_metadata.yml", b"a" * (64 * 2**20 + 1))
    return folder


@other(intake.recognise, "is not Gradescope's metadata")
def autograder_metadata_of_many_levels(folder):
    (folder / "submission_1").mkdir()
    put(folder / "submission_1", "submission_metadata.json", '{"x":' + "[" * 10**6)
    return folder


@other(intake.recognise, "1 handed in, ")
def student_with_a_name_of_accents(folder):
    (folder / "submission_1").mkdir()
    users = [{"name": "a" + "\u0315\u0300" * 10**6}]
    text = json.dumps({"users": users, "created_at": "2026-10-01T00:00:00Z"})
    put(folder / "submission_1", "submission_metadata.json", text)
    return folder


def repository(folder, header, message):
    """Two clones, whose only commit has this header and message."""
    tree = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
    content = (tree + header).encode() + b"\n" + message
    content = b"commit %d\0" % len(content) + content
    for name in ("hw1-ada", "hw1-bob"):
        git = folder / name / ".git"
        (git / "objects" / "aa").mkdir(parents=True)
        (git / "refs").mkdir()
        (git / "HEAD").write_text("a" * 40 + "\n")
        (git / "objects" / "aa" / ("a" * 38)).write_bytes(zlib.compress(content, 1))
    return folder


WHO = "author A <a> 1790000000 +0000\ncommitter A <a> 1790000000 +0000\n"


@other(intake.recognise, "2 handed in, 2 with a time")
def commit_with_a_message_of_256_mib(folder):
    return repository(folder, WHO, b"a" * 2**28)


@other(intake.recognise, "2 handed in, 0 with a time")
def commit_with_a_header_of_a_mebibyte(folder):
    return repository(folder, "parent " + "0" * 40 + "\n" + "x" * 2**20 + WHO, b"")


@other(intake.recognise, "2 handed in, 0 with a time")
def commit_at_an_impossible_time(folder):
    return repository(folder, WHO.replace("1790000000", "9" * 12), b"")


@other(intake.recognise, "2 handed in, 0 with a time")
def commit_at_the_end_of_the_year_9999(folder):
    return repository(folder, WHO.replace("1790000000", "253402300799"), b"")


@other(intake.recognise, "2 handed in, 0 with a time")
def settings_that_include_an_endless_device(folder):
    repository(folder, WHO, b"")
    for name in ("hw1-ada", "hw1-bob"):
        (folder / name / ".git" / "config").write_text("[include]\npath = /dev/zero\n")
    return folder


@other(intake.recognise, "2 handed in, 0 with a time")
def references_of_half_a_gibibyte(folder):
    repository(folder, WHO, b"")
    for name in ("hw1-ada", "hw1-bob"):
        (folder / name / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        with (folder / name / ".git" / "packed-refs").open("wb") as file:
            file.write(b"# pack-refs with: peeled \n")
            file.truncate(2**29)
    return folder


@other(roster.read, "is larger than 16 MiB")
def roster_of_16_mib_and_a_byte(folder):
    return put(folder, "a.csv", b"a" * (16 * 2**20 + 1))


@other(roster.read, "the table has more than 4,000,000 cells")
def roster_of_wide_and_many_rows(folder):
    return put(folder, "a.csv", "id" + ",a" * 10_000 + "\n" + "".join(f"{n}\n" for n in range(500)))


@other(roster.read, "has more than 10,000 characters in one cell")
def roster_with_a_long_cell(folder):
    return put(folder, "a.csv", "id,name\n1," + "\u0315\u0300" * 5_001)


@other(roster.read, "is not valid CSV: field larger than field limit")
def roster_with_an_open_quote(folder):
    return put(folder, "a.csv", 'id,name\n1,"' + "a" * 2**20)


@other(lambda path: tables.csv_table([], [p.read_text() for p in [path]] * 20_000), "id,name")
def problem_names_that_are_equal(folder):
    return put(folder, "a", "relu")


def filled_in(path):
    """Fill in a gradebook that Canvas exported."""
    return canvas_table.canvas([], Policy(title="a"), exported=path.read_text())


@other(filled_in, "the table has more than 4,000,000 cells")
def canvas_export_of_many_cells(folder):
    return put(folder, "a.csv", "Student,ID,\n" + "," * 4_000_001)


@other(filled_in, "has no column for an assignment")
def canvas_export_of_brackets(folder):
    return put(folder, "a.csv", "Student,ID," + " (1" * 3_000 + "\n")


@other(gradescope_scores.read, "is not valid CSV: field larger than field limit")
def scores_with_a_long_cell(folder):
    return put(folder, "a.csv", "SID,Total Score\n" + "1" * 200_000)


@other(policies.late_days_in, "expected a student, an assignment and a whole number of days")
def late_days_of_5000_digits(folder):
    return put(folder, "a.csv", "student,assignment,days\na,b," + "9" * 5_000)


@other(classroom50.read, "is larger than 16 MiB")
def classroom_of_16_mib_and_a_byte(folder):
    return put(folder, "a.json", b" " * (16 * 2**20 + 1))


@other(classroom50.read, "is not JSON")
def classroom_of_many_levels(folder):
    return put(folder, "a.json", "[" * 10**6)


@other(classroom50.read, "is not a scores.json of Classroom 50")
def classroom_of_many_objects(folder):
    return put(folder, "a.json", "[" + "{}," * (5 * 2**20) + "{}]")


@other(json_report.read, "is larger than 32 MiB")
def result_of_32_mib_and_a_byte(folder):
    return put(folder, "a.json", b" " * (32 * 2**20 + 1))


@other(json_report.read, "is not JSON")
def result_of_many_levels(folder):
    return put(folder, "a.json", "[" * 10**6)


@other(lambda path: policies.load(path, needed=True), "is larger than 1 MiB")
def policy_of_a_mebibyte_and_a_byte(folder):
    return put(folder, "policy.toml", b"#" * (2**20 + 1))


@other(lambda path: policies.load(path, needed=True), "is not TOML")
def policy_of_many_levels(folder):
    return put(folder, "policy.toml", "a = " + "[" * 10**6)


@other(submission_metadata.read, "is larger than 128 MiB")
def metadata_of_128_mib_and_a_byte(folder):
    path = folder / "submission_metadata.json"
    with path.open("wb") as file:
        file.truncate(128 * 2**20 + 1)
    return path


@other(lambda path: submission_metadata.read(path).attempt, "1")
def metadata_of_many_levels(folder):
    return put(folder, "submission_metadata.json", '{"x":' + "[" * 10**6)


def opened(path):
    """Open a gradebook for reading."""
    with database.to_read(path) as book:
        return len(book.execute("SELECT * FROM student").fetchall())


@other(opened, "expected a gradebook of `grader batch`, found another file")
def gradebook_of_zeros_and_a_byte(folder):
    return put(folder, "a.sqlite", b"SQLite format 3\0" + b"\xff" * 2**20)


# --- Canvas ---------------------------------------------------------------------------------------


def asked(path):
    """Ask a server on this machine, which answers as the file says, for all submissions."""
    how = json.loads(path.read_text())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = how["body"].encode() * how.get("times", 1)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            if how.get("next"):
                here = f"http://localhost:{server.server_port}/next"
                self.send_header("Link", f'<{here}>; rel="next"')
            self.end_headers()
            for part in range(0, len(body), how.get("part", len(body))):
                self.wfile.write(body[part : part + how.get("part", len(body))])
                waited.wait(how.get("pause", 0))

        def log_message(self, *_):
            pass

    server, waited = HTTPServer(("localhost", 0), Handler), threading.Event()
    server.handle_error = lambda *_: None  # its client goes before it has read everything
    threading.Thread(target=server.serve_forever, daemon=True).start()
    canvas_api.ANSWER_SECONDS = how.get("seconds", canvas_api.ANSWER_SECONDS)
    canvas_api.MOST_PAGES = how.get("pages", canvas_api.MOST_PAGES)
    place = canvas_api.place_of(f"http://localhost:{server.server_port}/courses/1/assignments/2")
    return len(canvas_api.CanvasApi(place, "token", sleep=lambda _: None).submissions())


def answers(folder, body, **how):
    """How a server answers."""
    return put(folder, "a.json", json.dumps({"body": body, **how}))


@other(asked, "an answer of Canvas is larger than 8 MiB")
def canvas_answer_of_8_mib_and_a_byte(folder):
    return answers(folder, " ", times=8 * 2**20 + 1)


@other(asked, "list is larger than 64 MiB")
def canvas_list_of_large_pages(folder):
    return answers(folder, "[" + " " * (8 * 2**20 - 2) + "]", next=True)


@other(asked, "list has more than 50 pages")
def canvas_list_without_an_end(folder):
    return answers(folder, "[]", next=True, pages=50)


@other(asked, "Canvas' answer is not as documented")
def canvas_answer_of_many_levels(folder):
    return answers(folder, "[" * 2**20)


@other(asked, "its answer took more than 0 seconds")
def canvas_answer_drop_by_drop(folder):
    return answers(folder, "[" + " " * 2**20, part=1, pause=0.01, seconds=0.2)


# --- reading one ----------------------------------------------------------------------------------


def read_submission(path):
    """Read a submission; return how many bytes it has."""
    with SubmissionReader() as reader:
        return sum(map(len, reader.read(path, ACCEPTED).sources.values()))


def shown(found):
    """What a reader returned, in a few words."""
    if isinstance(found, intake.Intake):
        times = sum(one.submitted_at is not None for one in found.handed_in)
        return f"{len(found.handed_in)} handed in, {times} with a time"
    return str(found)[:200]


def main(name, folder):
    """Read an input within limits; print what is said, and what it took."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))
    write, *reader, _ = OTHERS[name] if name in OTHERS else SUBMISSIONS[name]
    path = write(folder)
    code = 0
    try:
        said = shown((reader[0] if reader else read_submission)(path))
    except EndsCommand as e:
        code, said = e.exit_code, str(e)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"code": code, "said": said, "kib": children.ru_maxrss}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
