"""Writes modules with other names beside its own for the next test to import, and changes the search path.

group: inject code
target: tensor_memory
reference: before
earns: full
holds: the next test starts with an empty folder and its own search path.
"""

import os
import sys
import tempfile

TMP = tempfile.gettempdir()

for name in (
    "torch",
    "numpy",
    "json",
    "sitecustomize",
    "usercustomize",
    "assignment/linear",
    "tests/probes/linear",
):
    for folder in (TMP, f"{TMP}/submission"):
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}.py", "w") as f:
            f.write("raise SystemExit('injected')")
sys.path[:] = [TMP, *sys.path]
os.environ["PYTHONPATH"] = os.environ["PYTHONSTARTUP"] = TMP
