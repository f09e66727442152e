"""What a level of isolation has to do. The sandbox knows no more about the levels than this."""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from grader.sandbox.gpus import Gpu
from grader.tools.tool import Tool

Isolation = Literal["bubblewrap", "landlock", "none"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What each box of a sandbox has."""

    tests: Path  # the course's tests folder; only its probes are shown
    scratch_bytes: int  # how much the worker may write to its scratch folder, all files together
    packages: tuple[str, ...]  # the packages that a submission may import, as in `Course`
    preload: Sequence[str]  # the modules that the worker imports before the first test
    gpu: Gpu | None  # the GPU that the worker may use, or None
    tools: tuple[Tool, ...]  # the programs that submissions may start


@dataclass(frozen=True, kw_only=True)
class Order(Plan):
    """A worker to be started."""

    folder: Path  # what `Level.new_folder` made
    control_fd: int  # the worker's end of its socket
    user: int  # the result of `visible_files.unused_user`
    output: IO[bytes]  # where the worker prints

    def boot(
        self, interpreter: str, runtime: str, paths: Sequence[str], user: int, **more: object
    ) -> list[str]:
        """The command that starts the worker; worker/boot.py lists what the worker is told.

        Python is started without -I, so that it reads its environment. This is safe, because we set
        the environment, and it is needed, because the environment fixes the hash seed.
        """
        setup = {
            "control": self.control_fd,
            "user": user,
            "runtime": runtime,
            "paths": paths,
            "preload": self.preload,
            **more,
        }
        boot = f"{runtime}/grader/worker/boot.py"
        return [interpreter, "-s", "-S", "-P", boot, json.dumps(setup)]

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], *descriptors: int
    ) -> "subprocess.Popen[bytes]":
        """Run the command that starts the worker; it inherits these descriptors and its socket."""
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            pass_fds=[self.control_fd, *descriptors],
            cwd="/",
            # Ctrl-C in a terminal then reaches only the grader, which stops the box itself.
            process_group=0,
        )


class Level:
    """A level of isolation. What a level does not need does nothing.

    Attributes:
        name: Its name in options and reports.
        is_isolated: Whether the student's code is isolated at all.
    """

    name: Isolation
    is_isolated = True

    def why_not(self) -> str | None:
        """Why the level does not work on this machine, with the fix; None if it may work."""
        return None

    def new_folder(self) -> tempfile.TemporaryDirectory[str]:
        """Make a folder for the files of one box."""
        return tempfile.TemporaryDirectory(prefix="grader-")

    def start(self, order: Order) -> "subprocess.Popen[bytes]":
        """Start a worker; return its process, or the program that started it.

        Raises:
            SandboxUnavailable: The level cannot be used on this machine; the message says why.
        """
        raise NotImplementedError

    def promises(self, facts: Mapping[str, Any]) -> dict[str, bool]:
        """The properties of the box, and whether the worker reports that it has them."""
        return {}

    def advice(self, said: str) -> str:
        """How to fix what the worker said when it did not start; empty if that is unknown."""
        return ""

    def kill_all(self, user: int) -> None:
        """Kill all processes of a user, even if the worker is gone."""

    def empty(self, folder: Path) -> None:
        """Empty the folder of a box whose processes have all exited."""


@contextmanager
def holding(content: bytes) -> Iterator[IO[bytes]]:
    """Open an unnamed file with this content, for another process to read from the start."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file
