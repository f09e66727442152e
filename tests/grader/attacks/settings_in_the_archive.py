"""Adds settings, plugins and start-up files for pytest and Python, all of which leave a trace if they run.

group: inject code
target: linear
kind: archive
earns: full
holds: none of them is read, and the honest module in the same archive keeps its points.
"""

import zipfile
from pathlib import Path

TRACE = "open('/tmp/attack-escaped', 'w').close()\nraise SystemExit('injected')\n"


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("linear", "tensor_memory"):
            archive.write(
                Path(__file__).parents[3] / "grader" / "solutions" / "reference" / f"{name}.py",
                f"assignment/{name}.py",
            )
        for place in ("", "assignment/", "tests/", "tests/hidden/"):
            for name in (
                "conftest.py",
                "sitecustomize.py",
                "usercustomize.py",
                "setup.py",
                "__init__.py",
                "__main__.py",
            ):
                archive.writestr(place + name, TRACE)
            archive.writestr(place + "pytest.ini", "[pytest]\naddopts = -p assignment.evil\n")
            archive.writestr(
                place + "pyproject.toml",
                "[tool.pytest.ini_options]\naddopts = '-p assignment.evil'\n",
            )
            archive.writestr(place + "evil.pth", "import assignment.evil\n")
            archive.writestr(
                place + "evil-1.dist-info/entry_points.txt", "[pytest11]\nevil = assignment.evil\n"
            )
            archive.writestr(place + "evil.so", b"\x7fELF")
        archive.writestr("assignment/evil.py", TRACE)
        archive.writestr("assignment/problems.toml", "[limits]\nwall_seconds = 1e9\n")
    return path
