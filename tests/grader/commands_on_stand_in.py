"""Run the real commands with `--device cuda` on a machine without a GPU.

The queue, the sandbox and its processes are real. The GPU that is found is made of other devices,
and no test uses it.
"""

import os
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
import importlib.abc, importlib.util, sys
from pathlib import Path

def has_a_gpu(gpus):
    nodes = tuple(Path({folder!r}) / "dev" / name for name in ("nvidiactl", "nvidia0"))
    gpus.find = lambda: gpus.Gpu(
        0, {uuid!r}, "Simulated 8000", "599.01", 2**34, "0000:01:00.0", nodes, ())
    gpus.Gpu.used_bytes = lambda self: 0

def works(gpu_health):
    gpu_health.check_device = lambda *_: None

class Finder(importlib.abc.MetaPathFinder):
    changed = {{"grader.sandbox.gpus": has_a_gpu, "grader.grading.gpu_health": works}}

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
# A line of the log: the test begins or ends, and its process.
TEST = '''
"""relu, in a turn of the GPU."""

import os
import time

import pytest
import torch
from kit import expect


def _log(what):
    with open({log!r}, "a") as log:
        log.write(f"{{what}} {{os.getpid()}}\\n")


@pytest.mark.harm("wrong number")
def test_relu_in_a_turn(student, rng):
    """The same as on a CPU."""
    _log("begins")
    while os.path.exists({hold!r}):
        time.sleep(0.01)
    x = torch.randn(3, 5, generator=rng)
    got = student.activations.relu(x)
    _log("ends")
    expect.tensor(got, torch.relu(x), of="relu")
'''


class Idle(Gpu):
    """A GPU whose memory is free."""

    def used_bytes(self) -> int:
        return 0


class Machine:
    """A machine in an empty folder: with a GPU, its course and its environment."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._log, self._hold = folder, folder / "log", folder / "hold"
        self._log.touch()
        values = {"log": str(self._log), "hold": str(self._hold)}
        (folder / "dev").mkdir()
        for name, device in {"nvidiactl": "/dev/zero", "nvidia0": "/dev/full"}.items():
            (folder / "dev" / name).symlink_to(device)
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE.format(folder=str(folder), uuid=UUID))
        self.course = shutil.copytree(TINY, folder / "course")
        hidden = self.course / "tests" / "hidden" / "relu" / "test_cuda.py"
        hidden.write_text(TEST.format(**values))
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
    def log(self) -> list[list[str]]:
        """What began and ended, and in which process."""
        return [line.split() for line in self._log.read_text().splitlines()]

    def graded(self) -> Counter[int]:
        """How many tests each process has finished in its turns; nobody else began one meanwhile.

        A process that is killed has one that begins and does not end.
        """
        done: Counter[int] = Counter()
        inside = ""
        for what, process in self.log:
            if what == "begins":
                inside = process
            else:
                assert process == inside, "nobody else has the GPU"
                done[int(process)] += 1
        return done

    def queue(self) -> list[int]:
        """The commands that have or want the GPU, in the order of their turns."""
        return [ticket.process for ticket in gpu_turns.queue(UUID)]

    def results(self, book: Path) -> list[list[str]]:
        """How each submission's tests on the GPU ended, in a gradebook without faults."""
        with gradebook.reading(book) as opened:
            setup = opened.setups.current("cuda")
            assert setup is not None
            grades = opened.results.grades(setup, problems=False)
            assert {grade.fault for grade in grades.values()} == {""}
            results = [opened.results.result(name, setup) for name in grades]
        return [
            [str(test.status) for p in result.problems for test in p.tests if test.device == "cuda"]
            for result in results
            if result
        ]
