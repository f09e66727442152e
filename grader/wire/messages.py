"""What the grader and the zygote tell each other about the running test."""

from dataclasses import dataclass
from typing import Literal

MAX_FILES = 4096  # that a test may make in its scratch folder

Breach = Literal["memory", "files", "scratch", "uncountable", "processor"]


@dataclass(frozen=True)
class SpawnLimits:
    """The limits of a test that the zygote and its child enforce.

    Attributes:
        memory_bytes: The memory of all processes of the test, in addition to an idle worker's.
        cpu_seconds: The CPU time of the child, and of all its descendants together.
        processes: The number of processes, with their threads.
        file_bytes: The size of one file.
        scratch_bytes: The size of all files together.
        device_memory_bytes: The GPU memory; None without a GPU.
    """

    memory_bytes: int
    cpu_seconds: int
    processes: int
    file_bytes: int
    scratch_bytes: int
    device_memory_bytes: int | None


@dataclass(frozen=True)
class Activity:
    """What the processes of a test have done so far, as the zygote reports it.

    Attributes:
        nanoseconds: The CPU time of all their threads.
        sleeps: Whether all their threads sleep: none of them runs, or waits for a CPU or a disk.
        cpu_seconds_of_all: The CPU time of all of them, including those that have exited.
        disk_was_full: Whether they may have found a full disk that others have filled.
    """

    nanoseconds: int
    sleeps: bool
    cpu_seconds_of_all: float
    disk_was_full: bool


@dataclass(frozen=True)
class Ending:
    """How a child ended, as the zygote reports it.

    Attributes:
        clean: Whether nothing of the child is left.
        signal: The signal that ended it, or None.
        exit: Its exit code, or None.
        breach: The limit for which the zygote killed the child, because all processes of the test
            together exceeded it; None if they exceeded no such limit.
        was_alive: Whether the child was alive when the zygote killed it.
        cpu_seconds: The CPU time that the child used.
        cpu_seconds_of_all: The CPU time that the child and all processes it started used.
        memory_bytes: An upper bound on the memory that all these processes used at the same time.
        cleaning_seconds: How long it took to end them and to remove what they left behind.
    """

    clean: bool = True
    signal: int | None = None
    exit: int | None = None
    breach: Breach | None = None
    was_alive: bool = False
    cpu_seconds: float = 0.0
    cpu_seconds_of_all: float = 0.0
    memory_bytes: int = 0
    cleaning_seconds: float = 0.0
