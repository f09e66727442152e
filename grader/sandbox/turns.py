"""Share a GPU among the graders of a machine: one submission per turn, in a fair order.

Each GPU, or instance of a partitioned GPU, has a folder in which every waiting grader has a ticket.
The user whose last turn is the longest ago goes first; of this user's commands, the one that has
waited longest. A command has one ticket at a time, and needs another one for its next submission.
So a batch of 400 lets everybody else go between any two of its submissions. A command that joins
k - 1 others of its user, while U users want the GPU, waits for less than k × U turns.

The listing of the folder is the whole state: names of files say everything, and renaming a file
changes its state at once. The kernel's locks say who is alive: a grader holds a lock (flock) on its
ticket and, during its turn, on the folder. The kernel releases both when the process ends, however
it ends. No clock decides anything, so a clock that jumps changes nothing but a displayed time.

An SQLite database would do as well for one user. But several users would have to write to the same
file, and in a folder like /tmp many systems let nobody but its owner open it for that
(fs.protected_regular). Here, each user writes to files of their own.

A grader that is stopped (Ctrl-Z) when its turn comes would leave the GPU idle. So a grader that
sees the GPU free often enough goes ahead; how often depends on its place.

The users of a machine trust each other here: whoever may open the GPU can also use it without
asking. A submission sees neither the folder nor its locks.
"""

import errno
import fcntl
import multiprocessing
import os
import pwd
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.base.durations import duration
from grader.base.errors import MachineFault
from grader.sandbox.gpus import Gpu
from grader.sandbox.usage import GIVE_BACK_SECONDS, Usage
from kit.text import counted, one_line

FOLDER_VARIABLE = "GRADER_GPU_QUEUES"  # names the folder of all queues
FOLDER = "/tmp/grader-gpu-queues"  # unlike the folder that TMPDIR names, the same for all users
LOOK_SECONDS = 0.2
# How many looks in a row have to find the GPU free before a grader passes one that is ahead of it.
PATIENT_LOOKS = 25
MOST_LOOKS = 100  # at a folder that changes while it is read
COUNTED = 20  # about how many of a user's last turns are averaged
OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# wait-NUMBER-PROCESS-TOKEN, during a turn turn-NUMBER-PROCESS-TOKEN-STARTED-USED
TICKET = re.compile(r"(?:wait|turn)-(\d{1,15})-(\d{1,10})-[0-9a-f]{8}(?:-(\d{1,15})-(\d{1,18}))?")
# user-TURN-MILLISECONDS-COUNT-TOKEN
USER = re.compile(r"user-(\d{1,15})-(\d{1,15})-(\d{1,3})-[0-9a-f]{8}")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Ticket:
    """A grader that waits for the GPU or has it.

    Attributes:
        name: The name of its file.
        owner: The id of its user.
        number: Of two commands of a user, the one with the smaller number came first.
        process: The id of the command's process.
        started: When its turn began, by `time.monotonic`; None while it waits.
        used_bytes: How much of the GPU's memory was in use before its turn.
    """

    name: str
    owner: int
    number: int
    process: int
    started: float | None = None
    used_bytes: int = 0

    @property
    def who(self) -> str:
        """The user and the process, for people."""
        try:
            name = pwd.getpwuid(self.owner).pw_name
        except KeyError:
            name = f"user {self.owner}"
        return f"{one_line(name, 40)} (process {self.process})"


@dataclass(frozen=True)
class User:
    """What a queue remembers of a user.

    Attributes:
        turn: The number of the last turn; the turns of all users are numbered together.
        seconds: How long a turn takes, on average.
        count: The number of turns in this average.
        name: The name of the file.
    """

    turn: int = 0
    seconds: float = 0.0
    count: int = 0
    name: str = ""

    def after(self, seconds: float) -> "User":
        """The same after a turn that took this long. The average follows the last turns."""
        count = min(COUNTED, self.count + 1)
        average = self.seconds + (max(0.0, seconds) - self.seconds) / count
        return replace(self, seconds=average, count=count)


@dataclass
class QueueState:
    """A queue at one moment.

    Attributes:
        waiting: The graders that wait, in the order of their turns.
        holder: The grader that has the GPU; None if none has it.
        left: Tickets of graders that died during their turns.
        users: The users who have had a turn, by id.
        label: The GPU's name, for people.
    """

    waiting: list[Ticket] = field(default_factory=list)
    holder: Ticket | None = None
    left: list[Ticket] = field(default_factory=list)
    users: dict[int, User] = field(default_factory=dict)
    label: str = ""

    @property
    def last_turn(self) -> int:
        """The number of the last turn."""
        return max((user.turn for user in self.users.values()), default=0)

    def seconds(self) -> float | None:
        """How long a turn takes, on average; None if none was measured."""
        count = sum(user.count for user in self.users.values())
        return sum(u.seconds * u.count for u in self.users.values()) / count if count else None

    def seconds_held(self) -> float:
        """For how long the holder has had the GPU; 0 if nobody has it."""
        started = self.holder.started if self.holder else None
        return 0.0 if started is None else max(0.0, time.monotonic() - started)

    def seconds_until(self, place: int) -> float | None:
        """The expected wait of a grader; None if no turn was measured.

        Args:
            place: How many others that wait go before it.
        """
        each = self.seconds()
        if each is None:
            return None
        return place * each + (max(0.0, each - self.seconds_held()) if self.holder else 0.0)

    def told(self, mine: Ticket) -> str:
        """What a grader waits for, in one short line."""
        place = self.waiting.index(mine)
        ahead = place + bool(self.holder)
        turns = counted(ahead, "turn")
        short = self.label.partition(" (")[0]
        return f"waiting for {short}: {turns} ahead, {self._about(place)}; {self._first()}"

    def lines(self) -> Iterator[str]:
        """Who has the GPU, and who waits for it, for people."""
        each = self.seconds()
        takes = "no turn was measured yet" if each is None else f"a turn takes {duration(each)}"
        yield f"{self.label or 'a GPU'}: {self._first()}; {takes}"
        for place, ticket in enumerate(self.waiting):
            yield f"  {place + 1}. {ticket.who}: {self._about(place)}"

    def _about(self, place: int) -> str:
        """The expected wait, for people."""
        wait, each = self.seconds_until(place), self.seconds()
        if wait is None or each is None:
            return "wait unknown"
        if self.holder and not wait:
            return f"more than the usual {duration(each)}"
        return f"about {duration(wait)}"

    def _first(self) -> str:
        """Who has the GPU, or is next."""
        if self.holder:
            return f"{self.holder.who} has had it for {duration(self.seconds_held())}"
        return f"{self.waiting[0].who} is next" if self.waiting else "nobody has it"


# --- the order ------------------------------------------------------------------------------------


def in_order(waiting: Iterable[Ticket], last: Mapping[int, int]) -> list[Ticket]:
    """The order in which graders get their turns, if no others come.

    Args:
        waiting: The graders.
        last: The number of each user's last turn.
    """
    turns, ordered = dict(last), []
    left = sorted(waiting, key=lambda ticket: (ticket.number, ticket.name))
    number = max(turns.values(), default=0)
    while left:
        first = min(left, key=lambda ticket: turns.get(ticket.owner, 0))  # of equal ones, the first
        left.remove(first)
        ordered.append(first)
        turns[first.owner] = number = number + 1
    return ordered


# --- a turn ---------------------------------------------------------------------------------------


@contextmanager
def turn(gpu: Gpu, say: Say) -> Iterator[None]:
    """Wait for the GPU, and have it alone for the duration of the block.

    Args:
        gpu: The GPU.
        say: Called several times a second with what this process waits for.

    Raises:
        MachineFault: The folder of the queue cannot be used.
    """
    place = _Position(gpu)
    try:
        place.wait(say)
        with gpu.lock(say):  # other programs lock only the GPU's node
            place.begin(say)
            yield
            place.end()
    finally:
        place.close()


def waits(gpu: Gpu) -> str:
    """What this command, or a process of it, waits for; empty if it has the GPU or needs none."""
    folder = folder_of(gpu.uuid)
    try:
        seen = look_into(folder)
    finally:
        os.close(folder)
    mine = next((ticket for ticket in seen.waiting if ticket.process == _command()), None)
    return seen.told(mine) if mine else ""


class _Position:
    """The place of this process in the queue for a GPU."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._folder = folder_of(gpu.uuid)
        self._file: int | None = None
        self._name = ""
        self._user = User()
        self._started = 0.0

    def wait(self, say: Say) -> None:
        """Wait until it is this process's turn, and lock the folder."""
        free = 0
        while True:
            seen = look_into(self._folder)
            mine = next((ticket for ticket in seen.waiting if ticket.name == self._name), None)
            if mine is None:  # at first, or if somebody has removed the ticket
                self._join(seen)
                continue
            free = 0 if seen.holder else free + 1
            place = seen.waiting.index(mine)
            if free > PATIENT_LOOKS * place and _locks(self._folder, fcntl.LOCK_EX):
                if place or self._is_first():
                    return
                fcntl.flock(self._folder, fcntl.LOCK_UN)
            if place or seen.holder:
                say(seen.told(mine))
            time.sleep(LOOK_SECONDS)

    def _is_first(self) -> bool:
        """Whether it is still this process's turn, now that nobody else can begin one."""
        return self._name == next((t.name for t in look_into(self._folder).waiting), "")

    def _join(self, seen: QueueState) -> None:
        """Go to the end of the queue, with a ticket that is locked before others can see it."""
        self._leave()
        token = secrets.token_hex(4)
        known = [*seen.waiting, *seen.left, *filter(None, [seen.holder])]
        number = 1 + max((ticket.number for ticket in known), default=0)
        self._name = f"new-{token}"
        self._file = self._written(self._name)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._rename(f"wait-{number}-{_command()}-{token}")

    def _written(self, name: str) -> int:
        """Create a file with the GPU's name, which all users can read.

        Raises:
            MachineFault: It cannot be written.
        """
        try:
            file = os.open(name, CREATE, dir_fd=self._folder)
            os.fchmod(file, 0o644)
            os.write(file, self._gpu.label.encode())
        except OSError as e:
            raise _unusable(str(e.strerror)) from None
        return file

    def _rename(self, new: str) -> None:
        """Rename the ticket. If somebody has removed it, the locks still hold."""
        with suppress(FileNotFoundError):
            os.rename(self._name, new, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = new

    def begin(self, say: Say) -> None:
        """Begin the turn, as soon as the memory of graders that died in theirs is free."""
        assert self._file is not None
        seen = look_into(self._folder)
        for ticket in seen.left:
            usage = Usage(self._gpu)
            usage.start(before=ticket.used_bytes)
            if not usage.given_back(GIVE_BACK_SECONDS):
                held = usage.taken_bytes() // 2**20
                say(f"{self._gpu.label} still holds {held} MiB after a grader was killed")
            self._remove(ticket.name)
        self._started = time.monotonic()
        self._user = seen.users.get(os.fstat(self._file).st_uid, User())
        self._remember(replace(self._user, turn=1 + seen.last_turn))
        waited = self._name.removeprefix("wait-")
        started = max(0, round(self._started * 1000))
        self._rename(f"turn-{waited}-{started}-{self._gpu.used_bytes()}")

    def end(self) -> None:
        """End the turn. Without this, the next grader acts as if this process had died."""
        with suppress(OSError, MachineFault):  # an average is no reason to lose a result
            self._remember(self._user.after(time.monotonic() - self._started))
        self._remove(self._name)

    def _remember(self, user: User) -> None:
        """Write down what the queue knows of this process's user."""
        numbers = f"{user.turn}-{round(user.seconds * 1000)}-{user.count}"
        name = f"user-{numbers}-{secrets.token_hex(4)}"
        try:
            os.rename(self._user.name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except FileNotFoundError:
            os.close(self._written(name))
        self._user = replace(user, name=name)

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    def _leave(self) -> None:
        """Give the ticket back, unless a turn has begun with it."""
        if not self._name.startswith("turn-"):
            self._remove(self._name)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """Leave the queue, and unlock its folder."""
        self._leave()
        os.close(self._folder)


def _command() -> int:
    """The id of the process that people see: a batch, and not its process that grades."""
    parent = multiprocessing.parent_process()
    return parent.pid if parent and parent.pid else os.getpid()


def _locks(file: int, how: int) -> bool:
    """Lock a file or folder, if no other process prevents that; return whether it is locked."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- the folder -----------------------------------------------------------------------------------


def root() -> Path:
    """The folder of all queues."""
    return Path(os.environ.get(FOLDER_VARIABLE) or FOLDER)


def folder_of(uuid: str) -> int:
    """Open the folder of a GPU's queue, which is made if it is missing.

    Raises:
        MachineFault: The folder cannot be used.
    """
    try:
        outer = _made(str(root()), 0o1777)
        try:
            folder = _made(uuid, 0o777, within=outer)
        finally:
            os.close(outer)
    except OSError as e:
        raise _unusable(str(e.strerror)) from None
    if os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
        return folder
    os.close(folder)
    raise _unusable("its owner does not let others write to it")


def _made(path: str, mode: int, *, within: int | None = None) -> int:
    """Open a folder. If it is missing, make it with this mode, whatever the umask is."""
    with suppress(FileExistsError):
        os.mkdir(path, dir_fd=within)
        os.chmod(path, mode, dir_fd=within)
    return os.open(path, OPEN | os.O_DIRECTORY, dir_fd=within)


def _unusable(why: str) -> MachineFault:
    return MachineFault(
        f"the queue for the GPU cannot be kept in {root()}: {why}; set {FOLDER_VARIABLE} to a "
        "folder to which everybody who grades on this machine can write"
    )


def queues() -> Iterator[QueueState]:
    """The queues of this machine's GPUs."""
    with suppress(OSError):  # there is none
        for name in sorted(os.listdir(root())):
            with suppress(OSError):  # no folder, or not for this user
                folder = os.open(root() / name, OPEN | os.O_DIRECTORY)
                try:
                    yield look_into(folder)
                finally:
                    os.close(folder)


def look_into(folder: int) -> QueueState:
    """Read the folder of a queue; remove the tickets of graders that died while they waited."""
    for _ in range(MOST_LOOKS):
        seen = QueueState()
        try:
            for name in os.listdir(folder):
                if matched := TICKET.fullmatch(name) or USER.fullmatch(name):
                    _add(seen, folder, matched)
            break
        except FileNotFoundError:
            pass  # renamed since the folder was listed: without it, the order would be a wrong one
    seen.waiting = in_order(seen.waiting, {uid: user.turn for uid, user in seen.users.items()})
    return seen


def _add(seen: QueueState, folder: int, matched: re.Match[str]) -> None:
    """Add what a file says to a queue, unless it is none of ours.

    Raises:
        FileNotFoundError: The file has been renamed or removed.
    """
    name, numbers = matched[0], [int(group) for group in matched.groups() if group]
    try:
        file = os.open(name, OPEN, dir_fd=folder)
    except OSError as e:
        if e.errno == errno.ENOENT:
            raise
        return
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return
        seen.label = seen.label or one_line(os.read(file, 200).decode(errors="replace"), 80)
        if matched.re is USER:
            turn, milliseconds, count = numbers
            user = User(turn, milliseconds / 1000, count, name)
            seen.users[about.st_uid] = max(user, seen.users.get(about.st_uid, user), key=_turn_of)
            return
        number, process, *of_turn = numbers
        ticket = Ticket(name, about.st_uid, number, process)
        is_alive = not _locks(file, fcntl.LOCK_SH)
        if of_turn:
            ticket = replace(ticket, started=of_turn[0] / 1000, used_bytes=of_turn[1])
        if is_alive and of_turn:
            seen.holder = ticket
        elif is_alive:
            seen.waiting.append(ticket)
        elif of_turn:
            seen.left.append(ticket)
        else:
            with suppress(PermissionError):
                os.unlink(name, dir_fd=folder)
    finally:
        os.close(file)


def _turn_of(user: User) -> int:
    return user.turn
