"""Run the real commands with `--device cuda` on a machine without a GPU.

The queue, the sandbox and its processes are real. In the box, `kit.gpu_stand_in` replaces
torch.cuda. Outside of it, a GPU is found whose node is a file, and each process that uses the
stand-in counts as 1 GiB of its memory for as long as it exists: its name shows it.
"""

import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.classroom import gradebook
from grader.sandbox import gpu_turns
from grader.sandbox.gpus import Gpu

TINY = Path(__file__).resolve().parents[2] / "examples" / "tiny_course"
UUID = "GPU-0a1b2c3d"
# Python imports this module at its start: in each command, and in each process that it starts.
SITE = """
import importlib.abc, importlib.util, sys, os
from pathlib import Path

FOLDER, NAME = Path({folder!r}), {name!r}

def users():
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += (process / "comm").read_bytes().strip() == NAME.encode()
        except OSError:
            pass
    return found

def simulate(gpus):
    nodes = tuple(FOLDER / "dev" / name for name in ("nvidiactl", "nvidia0"))
    gpus.find = lambda: gpus.Gpu(
        0, {uuid!r}, "Simulated 8000", "599.01", 2**34, "0000:01:00.0", nodes, ())
    gpus.Gpu.used_bytes = lambda self: users() * 2**30

class Finder(importlib.abc.MetaPathFinder):
    changed = {{"grader.sandbox.gpus": simulate}}

    def find_spec(self, name, path, target=None):
        change = self.changed.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (load(module), change(module))
        return spec

sys.meta_path.insert(0, Finder())
"""
# The zygote imports this. A child that starts CUDA gets the stand-in and its name.
PROBES = '''
"""A stand-in for a GPU, and a probe that uses it."""

import ctypes

import torch

from kit import gpu_stand_in

torch.cuda.get_device_capability = lambda device=None: (9, 0)


def _start():
    ctypes.CDLL(None).prctl(15, {name!r}.encode(), 0, 0, 0)
    _start.kept = gpu_stand_in.gpu()
    _start.kept.__enter__()


torch.cuda.init = _start


def nothing(student):
    """Nothing; but the sandbox starts a process for it, which needs the memory of the last one."""
    return True


def relu_there(student, x):
    """relu of a tensor that has been on the GPU."""
    torch.cuda.init()
    return student.activations.relu(x.to("cuda").to("cpu"))
'''
# A line of the log: the test begins or ends, its process, and the number of processes on the GPU.
TEST = '''
"""relu, on the GPU."""

import os
import sys
import time

import pytest
import torch
from kit import expect
from tests.probes.simulated import nothing, relu_there

sys.path.insert(0, {folder!r})


def _log(what):
    from sitecustomize import users

    line = f"{{what}} {{os.getpid()}} {{users()}}\\n"
    file = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)


@pytest.mark.harm("wrong number")
def test_relu_on_the_gpu(student, rng):
    """The same as on a CPU."""
    assert student.run(nothing)
    _log("begins")
    while os.path.exists({hold!r}):
        time.sleep(0.01)
    x = torch.randn(3, 5, generator=rng)
    got = student.run(relu_there, x=x)
    _log("ends")
    expect.tensor(got, torch.relu(x), of="relu")
'''


class Idle(Gpu):
    """A GPU whose memory is free."""

    def used_bytes(self) -> int:
        return 0


class Machine:
    """A machine in an empty folder: with a stand-in for a GPU, its course and its environment."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._log, self._hold = folder, folder / "log", folder / "hold"
        self._log.touch()
        values = {"folder": str(folder), "log": str(self._log), "hold": str(self._hold)}
        values |= {"uuid": UUID, "name": f"gpu-{secrets.token_hex(4)}"}
        (folder / "dev").mkdir()
        for name, device in {"nvidiactl": "/dev/zero", "nvidia0": "/dev/full"}.items():
            (folder / "dev" / name).symlink_to(device)
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE.format(**values))
        self.course = shutil.copytree(TINY, folder / "course")
        (self.course / "tests" / "probes" / "simulated.py").write_text(PROBES.format(**values))
        hidden = self.course / "tests" / "hidden" / "relu" / "test_cuda.py"
        hidden.write_text(TEST.format(**{**values, "folder": str(site)}))
        queues = {gpu_turns.FOLDER_VARIABLE: str(folder / "queues")}
        self.environment = {**os.environ, "PYTHONPATH": str(site), **queues}

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have the GPU, so that commands that start meanwhile wait."""
        node = self._folder / "dev" / "nvidia0"
        gpu = Idle(0, UUID, "Simulated 8000", "599.01", 2**34, "0000:01:00.0", (node,), ())
        with gpu_turns.turn(gpu, print):
            yield

    def keep_tests(self) -> None:
        """Keep tests from ending on the GPU, until `let_tests_end`."""
        self._hold.touch()

    def let_tests_end(self) -> None:
        """Let tests end again."""
        self._hold.unlink()

    @property
    def log(self) -> list[tuple[str, int, int]]:
        """What began and ended, in which process, and how many processes were on the GPU."""
        found = re.findall(r"(begins|ends) (\d+) (\d+)\n", self._log.read_text())
        return [(what, int(process), int(users)) for what, process, users in found]

    def graded(self) -> Counter[int]:
        """How many tests each process has finished on the GPU, if they were alone there.

        A process that is killed has one that begins and does not end.
        """
        done: Counter[int] = Counter()
        inside = None
        for what, process, users in self.log:
            if what == "begins":
                assert users == 0, "the processes of the last turn have ended"
                inside = process
            else:
                assert (process, users) == (inside, 1), "nobody else has the GPU"
                done[process] += 1
        return done

    def queue(self) -> list[int]:
        """The commands that have or want the GPU, in the order of their turns."""
        return [ticket.process for ticket in gpu_turns.queue(UUID)]

    def results(self, book: Path) -> list[list[str]]:
        """How each submission's tests on the GPU ended, in a gradebook without faults."""
        with gradebook.reading(book) as opened:
            setup = opened.setups.current("cuda")
            assert setup is not None
            grades = opened.results.grades(setup)
            assert {grade.fault for grade in grades.values()} == {""}
            results = [opened.results.result(name, setup) for name in grades]
        return [
            [str(test.status) for p in result.problems for test in p.tests if test.device == "cuda"]
            for result in results
            if result
        ]
