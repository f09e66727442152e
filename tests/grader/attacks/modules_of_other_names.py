"""Submits modules named after torch, numpy, json, the probes and the grader.

group: inject code
target: linear
kind: archive
earns: full
holds: the sandbox imports its own modules, and the honest module keeps its points.
"""

import tarfile
from pathlib import Path

EVIL = b"open('/tmp/attack-escaped', 'w').close()\nraise SystemExit('injected')\n"


def build(folder: Path) -> Path:
    evil = folder / "evil.py"
    evil.write_bytes(EVIL)
    path = folder / "submission.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("linear", "tensor_memory"):
            archive.add(
                Path(__file__).parents[3] / "grader" / "solutions" / "reference" / f"{name}.py",
                f"home/assignment/{name}.py",
            )
        for name in ("torch", "numpy", "json", "socket", "tests", "grader", "__init__"):
            for place in (
                "home/",
                "home/assignment/",
                "home/assignment/torch/",
                "home/tests/probes/",
                "home/grader/",
            ):
                archive.add(evil, f"{place}{name}.py")
    return path
