"""Hostile files that no editor shows.

A function with an argument builds an archive in a folder; one without returns a module's source.
"""

import random
import zipfile

from grader.course import courses

REFERENCE = courses.load().reference
NAMES = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2066<script>alert(1){{ 7*7 }}[red]\n\r"
TRACE = "open('/tmp/attack-escaped', 'w').close()\nraise SystemExit('injected')\n"


def zipped(path, files, honest="assignment"):
    """A zip of these files and, in a folder, two honest modules."""
    for name in ("linear.py", "tensor_memory.py"):
        files[f"{honest}/{name}"] = (REFERENCE / name).read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def modules_of_other_names(folder):
    """Submits modules named after torch, numpy, json, the probes and the grader.

    group: inject code
    target: linear
    earns: full
    holds: the sandbox imports its own modules, and the honest module keeps its points.
    """
    names = ("torch", "numpy", "json", "socket", "tests", "grader", "__init__")
    places = ("", "assignment/", "assignment/torch/", "tests/probes/", "grader/")
    files = {f"home/{place}{name}.py": TRACE for name in names for place in places}
    return zipped(folder / "submission.zip", files, "home/assignment")


def settings_in_the_archive(folder):
    """Adds settings, plugins and start-up files for pytest and Python, which leave a trace.

    group: inject code
    target: linear
    earns: full
    holds: none of them is read, and the honest module in the same archive keeps its points.
    """
    scripts = ("conftest", "sitecustomize", "usercustomize", "setup", "__init__", "__main__")
    options = "addopts = '-p assignment.evil'\n"
    settings = {f"{name}.py": TRACE for name in scripts} | {
        "pytest.ini": "[pytest]\naddopts = -p assignment.evil\n",
        "pyproject.toml": f"[tool.pytest.ini_options]\n{options}",
        "evil.pth": "import assignment.evil\n",
        "evil-1.dist-info/entry_points.txt": "[pytest11]\nevil = assignment.evil\n",
        "evil.so": b"\x7fELF",
    }
    places = ("", "assignment/", "tests/", "tests/hidden/")
    files = {place + name: text for place in places for name, text in settings.items()}
    files["assignment/evil.py"] = TRACE
    files["assignment/problems.toml"] = "[limits]\nwall_seconds = 1e9\n"
    return zipped(folder / "submission.zip", files)


def names_of_files(folder):
    """A zip of a thousand files with escape sequences, direction marks and markup in their names.

    group: attack the reader
    target: linear
    earns: full
    holds: file names are escaped, and only a readable number of them is listed.
    """
    files = {f"{NAMES}/assignment/{NAMES}{number}.py": "" for number in range(1000)}
    files |= {f"{NAMES}{number}/{NAMES}.txt": "" for number in range(1000)}
    return zipped(folder / "\x1b[2J\u202esubmission.zip", files, f"{NAMES}/assignment")


def a_hundred_thousand_calls():
    """Makes so many forbidden calls that the list of them exceeds the largest allowed answer.

    group: cheat the exercise
    target: linear
    tests: registers_its_weight
    status: policy
    holds: the problem gets the status policy, and the report stays short.
    """
    head = b"import torch.nn.functional as F\nfrom torch import nn\n\n\nclass Linear(nn.Module):\n"
    return head + b"    def forward(self, x):\n" + b"        F.linear()\n" * 26_000


def nested_a_hundred_thousand_deep():
    """A module with expressions nested so deep that parsing them overflows the stack.

    group: hostile files
    target: tensor_memory
    status: failed, crashed, memory
    holds: the source is parsed where it can harm nobody else.
    """
    n = 100_000
    nested = [b"(" * n + b")" * n, b"-" * n + b"1", b"x" + b"[0]" * n]
    return random.Random(0).choice(nested) + b"\nx" + b".a" * n + b"\n"


def source_in_another_encoding():
    """A module encoded in UTF-7, in which the bytes do not show the forbidden call.

    group: hostile files
    target: linear
    tests: registers_its_weight
    status: policy
    holds: the source is decoded as Python decodes it.
    """
    head = "from torch.nn import functional as F\nclass Linear:\n"
    call = "    def __init__(self, *a, **k):\n        +AEY-.linear(*a)\n"
    return f"# -*- coding: utf-7 -*-\n{head}{call}".encode()


def null_bytes_in_a_source():
    """A module with null bytes, which C code takes for the end of the text.

    group: hostile files
    target: linear
    status: failed
    holds: the module is rejected as invalid Python, with a message that says so.
    """
    return b"x = 1\n\0class Linear: pass\n\0" * 10


def syntax_error_that_speaks():
    """A module whose syntax error quotes terminal escapes, a text direction mark and markup.

    group: attack the reader
    target: tensor_memory
    status: failed
    holds: the parser's message is escaped like any other text.
    """
    return "x = \x1b[2J \u202e <script> ".encode() + b"\n\xff\xfe"
