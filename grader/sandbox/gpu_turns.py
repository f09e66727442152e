"""Share a GPU among the graders of a machine: one submission per turn, in the order of arrival.

Every grader that waits for a GPU, or has it, has a ticket: a file with the GPU's identifier, a
number and the process. Numbers are given under the folder's lock, so the smallest number of a
living grader has the GPU, and none that comes later is smaller. A grader holds the kernel's lock
(flock) on its ticket, which ends with the process, however that ends.
"""

import fcntl
import multiprocessing
import os
import pwd
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from grader.base.errors import MachineFault
from grader.sandbox.gpu_readings import GIVE_BACK_SECONDS, Usage
from grader.sandbox.gpus import Gpu
from kit.safe_text import counted, one_line

FOLDER_VARIABLE = "GRADER_GPU_QUEUES"  # names the folder of all queues
FOLDER = "/tmp/grader-gpu-queues"  # unlike the folder that TMPDIR names, the same for all users
LOOK_SECONDS = 0.2
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
TICKET = re.compile(r"([\w-]+)\.(\d{1,15})\.(\d{1,10})", re.ASCII)
Say = Callable[[str], None]


class Ticket(NamedTuple):
    """A grader that has or wants a GPU, or had one when it died."""

    uuid: str
    number: int
    process: int
    who: str
    label: str
    is_alive: bool
    path: Path


@contextmanager
def turn(gpu: Gpu, say: Say) -> Iterator[None]:
    """Wait for the GPU, and have it alone; `say` is told what this process waits for.

    Raises:
        MachineFault: The folder of the queues cannot be used.
    """
    try:
        number, path, file = _join(gpu)
    except OSError as e:
        raise MachineFault(
            f"the queue for the GPU cannot be kept in {root()}: {e.strerror}; set "
            f"{FOLDER_VARIABLE} to a folder to which everybody who grades on this machine can write"
        ) from None
    try:
        while ahead := [ticket for ticket in queue(gpu.uuid) if ticket.number < number]:
            say(_told(ahead))
            time.sleep(LOOK_SECONDS)
        _clear(gpu, number)
        yield
        path.unlink(missing_ok=True)  # one that stays is that of a grader that was killed
    finally:
        os.close(file)


def _join(gpu: Gpu) -> tuple[int, Path, int]:
    """The number, the path and the open file of a new ticket, which is locked."""
    with suppress(FileExistsError):
        root().mkdir()
        root().chmod(0o777)  # whatever the umask is
    folder = os.open(root(), READ | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        number = 1 + max((ticket.number for ticket in _tickets()), default=0)
        path = root() / f"{gpu.uuid}.{number}.{_command()}"
        file = os.open(path, WRITE)
        os.fchmod(file, 0o644)
        fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(OSError):  # on a full disk, people see the identifier
            os.write(file, gpu.label.encode())
        return number, path, file
    finally:
        os.close(folder)


def _clear(gpu: Gpu, number: int) -> None:
    """Remove the tickets of graders that died; the driver may still have to free their memory."""
    if left := [t for t in _tickets() if t.uuid == gpu.uuid and t.number < number]:
        usage = Usage(gpu)
        usage.start(before=0)
        usage.given_back(GIVE_BACK_SECONDS)
    for ticket in left:
        with suppress(OSError):
            ticket.path.unlink()


def root() -> Path:
    """The folder of all queues."""
    return Path(os.environ.get(FOLDER_VARIABLE) or FOLDER)


def _tickets() -> list[Ticket]:
    """All tickets, in the order of arrival."""
    found = []
    for matched in filter(None, map(TICKET.fullmatch, os.listdir(root()))):
        uuid, number, process, path = *matched.groups(), root() / matched[0]
        with suppress(OSError):  # it has just been removed, or is none of ours
            file = os.open(path, READ)
            try:
                who = f"{_name_of(os.fstat(file).st_uid)} (process {process})"
                label = one_line(os.read(file, 200).decode(errors="replace"), 80) or uuid
                is_alive = not _locks(file)
            finally:
                os.close(file)
            found.append(Ticket(uuid, int(number), int(process), who, label, is_alive, path))
    return sorted(found)


def _name_of(user: int) -> str:
    try:
        return one_line(pwd.getpwuid(user).pw_name, 40)
    except KeyError:
        return f"user {user}"


def _locks(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _command() -> int:
    """The id of the process that people see: a batch, and not its process that grades."""
    parent = multiprocessing.parent_process()
    return parent.pid if parent and parent.pid else os.getpid()


def queue(uuid: str = "") -> list[Ticket]:
    """The graders that have or want a GPU, by default any, in the order of their turns."""
    found = _tickets() if root().is_dir() else []
    return [ticket for ticket in found if ticket.is_alive and uuid in ("", ticket.uuid)]


def waits(gpu: Gpu) -> str:
    """What this command, or a process of it, waits for; empty if it has the GPU or needs none."""
    found = queue(gpu.uuid)
    place = next((i for i, ticket in enumerate(found) if ticket.process == _command()), 0)
    return _told(found[:place]) if place else ""


def _told(ahead: list[Ticket]) -> str:
    first, turns = ahead[0], counted(len(ahead), "turn")
    return f"waiting for {first.label.partition(' (')[0]}: {turns} ahead; {first.who} has it"


def lines() -> Iterator[str]:
    """Who has each GPU of this machine, and who waits for it, for people."""
    for _, (first, *others) in groupby(queue(), key=lambda ticket: ticket.uuid):
        yield f"{first.label}: {first.who} has it"
        yield from (f"  {place}. {ticket.who}" for place, ticket in enumerate(others, 1))
