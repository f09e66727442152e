"""What the grader and the zygote tell each other about the running test."""

from dataclasses import dataclass
from typing import Literal

MAX_FILES = 4096  # that a test may make in its scratch folder

Breach = Literal["memory", "files", "scratch", "uncountable", "processor"]


@dataclass(frozen=True)
class SpawnLimits:
    """The limits of a test that the zygote and its child enforce."""

    memory_bytes: int  # the memory of all processes of the test, in addition to an idle worker's
    cpu_seconds: int  # the CPU time of the child, and of all its descendants together
    processes: int  # the number of processes, with their threads
    file_bytes: int  # the size of one file
    scratch_bytes: int  # the size of all files together
    device_memory_bytes: int | None  # the GPU memory; None without a GPU


@dataclass(frozen=True)
class Activity:
    """What the processes of a test have done so far, as the zygote reports it."""

    nanoseconds: int  # the CPU time of all their threads
    sleeps: bool  # whether all their threads sleep: none of them runs, or waits for a CPU or a disk
    cpu_seconds_of_all: float  # the CPU time of all of them, including those that have exited
    disk_was_full: bool  # whether they may have found a full disk that others have filled


@dataclass
class Ending:
    """How a child ended, as the zygote reports it, which fills it in while the child runs."""

    clean: bool = True  # whether nothing of the child is left
    signal: int | None = None  # the signal that ended it, or None
    exit: int | None = None  # its exit code, or None
    # The limit for which the zygote killed the child, because all processes of the test together
    # exceeded it; None if they exceeded no such limit.
    breach: Breach | None = None
    was_alive: bool = False  # whether the child was alive when the zygote killed it
    cpu_seconds: float = 0.0  # the CPU time that the child used
    cpu_seconds_of_all: float = 0.0  # the CPU time that the child and all processes it started used
    # an upper bound on the memory that all these processes used at the same time.
    memory_bytes: int = 0
    # How long it took to end them and to remove what they left behind.
    cleaning_seconds: float = 0.0
