"""Turns of a GPU: classes that share one, with processes that are killed and clocks that jump.

    python benchmarks/turns.py [--submissions N] [--seed N] [--json FILE]

The first part runs real processes. Each is a batch: it has a gradebook of its own and takes a real
turn for each submission; only what happens in the turn is replaced, by a pause. As root, every two
batches belong to a user of their own. A batch is killed (SIGKILL) about ten times a second and
started again until its class is graded; the clocks of each process jump by days. The figures are
counted from a log and the gradebooks: results per submission, turns at the same time, and the
longest wait in turns relative to the bound of grader/sandbox/turns.py.

The second part simulates the order alone, for more users and commands that come and go. It also
compares a single command's wait with that of first come, first served, and the expected wait that
a command is told with the real one.
"""

import argparse
import itertools
import json
import os
import random
import signal
import statistics
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from grader.base.errors import Status
from grader.classroom import batches, gradebook
from grader.classroom.executor import BatchEvent, Ended, Started, Take
from grader.classroom.records import Student
from grader.classroom.setups import Setup
from grader.results.points import problem_result, submission_result
from grader.results.records import GraderInfo, Outcome
from grader.sandbox import turns
from grader.sandbox.gpus import Gpu
from grader.sandbox.turns import QueueState, Ticket, User
from grader.submission.submissions import Submission

USERS, BATCHES_EACH = 4, 2
KILLS_PER_SECOND = 10.0
HELD_SECONDS = 0.002
FIRST_USER = 20001
SETUP = Setup(
    device="cuda",
    suite_sha256="0" * 64,
    program_sha256="0" * 64,
    version="0",
    torch="",
    packages="",
    python="3",
    isolation="bubblewrap",
    seed=0,
    problems=["p"],
)


def main() -> None:
    """Simulate, print the figures, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=2000, help="of all batches together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures = {
        "processes": with_processes(options.submissions, options.seed),
        "the order alone": simulated(options.seed),
        "a grade beside a batch of 400": beside_a_batch(),
    }
    for part, values in figures.items():
        print(part)
        for name, value in values.items():
            print(f"  {name:<58} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


# --- with processes -------------------------------------------------------------------------------


class Free(Gpu):
    """A GPU whose memory is free."""

    def used_bytes(self) -> int:
        """None."""
        return 0


class TakesTurns:
    """An executor that takes a turn for each submission and does nothing in it.

    Args:
        gpu: The GPU.
        log: A file; each line is written by one call.
    """

    def __init__(self, gpu: Gpu, log: int) -> None:
        self._gpu, self._log = gpu, log

    def run(self, take: Take) -> Generator[BatchEvent, None, None]:
        """See `Executor`."""
        while submission := take():
            yield Started(submission)
            self._waits = False
            with turns.turn(self._gpu, self._hear):
                self._say("begins")
                pause(HELD_SECONDS)
                result = msgspec.json.encode(result_of(submission))
                self._say("ends")
            yield Ended(submission, result)

    def _hear(self, text: str) -> None:
        if not self._waits:  # it has a ticket now
            self._waits = True
            self._say("waits")

    def _say(self, what: str) -> None:
        os.write(self._log, f"{what} {os.getuid()} {os.getpid()}\n".encode())


pause = time.sleep


def result_of(submission: Submission) -> Any:
    """The result of a submission, in which everything has passed."""
    info = GraderInfo(
        version="0",
        suite_sha256="0" * 64,
        device="cuda",
        isolation="bubblewrap",
        seed=0,
        environment={},
    )
    passed = Outcome(id="cuda/test", device="cuda", status=Status.PASSED, weight=1)
    problem = problem_result("p", "m", 1.0, [passed], "cuda")
    return submission_result(submission.info, info, [problem], seconds=0.0)


def with_processes(submissions: int, seed: int) -> dict[str, Any]:
    """Grade classes whose batches are killed; return the figures."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="turns-") as made:
        folder = Path(made)
        os.chmod(folder, 0o777)
        (folder / "log").touch()
        os.chmod(folder / "log", 0o666)
        (folder / "node").touch()
        os.environ[turns.FOLDER_VARIABLE] = str(folder / "queues")
        turns.LOOK_SECONDS = 0.01
        turns.PATIENT_LOOKS = 10**9  # on a busy machine, a batch that is only slow is not passed
        count = USERS * BATCHES_EACH
        books = [(folder / f"{i}.sqlite", user_of(i)) for i in range(count)]
        for i, (book, user) in enumerate(books):
            made_class(book, i, submissions // count, user)
        started = time.perf_counter()
        kills = run_all(folder, books, draw)
        seconds = time.perf_counter() - started
        results = Counter(number for book, _ in books for number in results_in(book))
        log = (folder / "log").read_text().split("\n")[:-1]
    return {
        "submissions": submissions // count * count,
        "users, batches": f"{len({user for _, user in books})}, {count}",
        "batches killed": kills,
        "results per submission (count: submissions)": dict(results),
        **of_log(log),
        "seconds": round(seconds, 1),
    }


def user_of(number: int) -> int:
    """The user of a batch; only root can start processes of others."""
    return os.getuid() or FIRST_USER + number // BATCHES_EACH


def made_class(path: Path, number: int, size: int, user: int) -> None:
    """Make a gradebook with a class that has handed in."""
    with gradebook.writing(path, create=True) as book:
        book.apply(book.number_of(SETUP), why="batch")
        book.enrol([Student(id=f"s{i}") for i in range(size)])
        for i in range(size):
            sources = {"assignment/m.py": f"# {number} {i}\n".encode()}
            book.add_attempt(f"s{i}", f"s{i}.zip", Submission(f"s{i}", sources, []))
    for file in path.parent.glob(f"{path.name}*"):
        os.chown(file, user, user)


def results_in(path: Path) -> list[int]:
    """How many results each submission of a gradebook has."""
    with gradebook.reading(path) as book:
        setup = book.find(SETUP)
        assert setup is not None
        grades, left = book.grades(setup, problems=False), len(book.to_grade(setup))
    return [1] * len(grades) + [0] * left


def run_all(folder: Path, books: list[tuple[Path, int]], draw: random.Random) -> int:
    """Run the batches, kill and restart them until all have finished; return the kills."""
    running = {start(folder, book, user, draw.random()): (book, user) for book, user in books}
    kills, next_kill = 0, time.monotonic()
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            book, user = running.pop(pid)
            with (folder / "log").open("a") as log:
                log.write(f"is-gone {user} {pid}\n")
            if os.WIFSIGNALED(status):
                running[start(folder, book, user, draw.random())] = (book, user)
            elif status:
                for other in running:
                    os.kill(other, signal.SIGKILL)
                raise SystemExit(f"{book.name} failed")
            continue
        if time.monotonic() >= next_kill:
            next_kill = time.monotonic() + draw.expovariate(KILLS_PER_SECOND)
            os.kill(draw.choice(list(running)), signal.SIGKILL)
            kills += 1
        time.sleep(0.002)
    return kills


def start(folder: Path, path: Path, user: int, seed: float) -> int:
    """Start a batch in a process of its own, whose clocks jump; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if user != os.getuid():
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        let_clocks_jump(random.Random(seed))
        log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND)
        nodes = (folder / "node",)
        gpu = Free(0, "GPU-0a1b", "Stand-in 8000", "599.01", 2**34, "0000:01:00.0", nodes, ())
        with gradebook.writing(path) as book:
            batches.grade(book, book.number_of(SETUP), TakesTurns(gpu, log), show=lambda _: None)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def let_clocks_jump(draw: random.Random) -> None:
    """Let this process's clocks jump by days, in either direction."""
    for name in ("time", "monotonic"):
        real = getattr(time, name)
        setattr(time, name, lambda real=real: real() + draw.choice((0.0, 0.0, 2e5, -2e5)))


def of_log(log: list[str]) -> dict[str, Any]:
    """Count turns at the same time, turns cut short, and waits in turns."""
    inside: str | None = None
    begun = cut = shared = 0
    asked: dict[str, int] = {}  # by process: turns begun before
    longest = 0
    for line in log:
        what, user, process = line.split()
        me = f"{user} {process}"
        if what == "waits":
            asked[me] = begun
        elif what == "is-gone":
            asked.pop(me, None)
        elif what == "begins":
            cut += inside is not None
            longest = max(longest, begun - asked.pop(me, begun))
            begun += 1
            inside = process
        else:
            shared += inside != process
            inside = None
    return {
        "turns begun": begun,
        "turns that a kill has ended": cut + (inside is not None),
        "turns that ended although another one had begun": shared,
        "longest wait, in turns (it has to be less than the bound)": longest,
        "bound, in turns": BATCHES_EACH * USERS,
    }


# --- the order alone ------------------------------------------------------------------------------


@dataclass
class Simulation:
    """Users whose commands come, want one or many turns, and may be killed.

    Attributes:
        draw: The source of chance.
        users: The number of users.
        waiting: The tickets by number, each with its bound and its expected wait.
        worst: The longest wait relative to its bound.
        ratios: The expected waits relative to the real ones.
    """

    draw: random.Random
    users: int
    number: int = 0
    served: int = 0
    now: float = 0.0
    worst: float = 0.0
    longest: int = 0
    killed: int = 0
    waiting: dict[int, tuple[Ticket, int, int, int, float, float | None]] = field(
        default_factory=dict
    )
    known: dict[int, User] = field(default_factory=dict)
    ratios: list[float] = field(default_factory=list)

    def join(self, owner: int, count: int) -> None:
        """A command with this many submissions asks for a turn."""
        self.number += 1
        ticket = Ticket(f"{self.number}", owner, self.number, 0)
        own = sum(entry[0].owner == owner for entry in self.waiting.values())
        order = turns.in_order(
            [*(entry[0] for entry in self.waiting.values()), ticket], self.last()
        )
        state = QueueState(order, users=self.known)
        expected = state.seconds_until(order.index(ticket))
        bound = (own + 1) * self.users
        self.waiting[self.number] = (ticket, count, self.served, bound, self.now, expected)

    def last(self) -> dict[int, int]:
        """The number of each user's last turn."""
        return {owner: user.turn for owner, user in self.known.items()}

    def serve(self) -> None:
        """The next turn."""
        ticket = turns.in_order([entry[0] for entry in self.waiting.values()], self.last())[0]
        _, count, since, bound, asked, expected = self.waiting.pop(ticket.number)
        waited = self.served - since
        self.longest, self.worst = max(self.longest, waited), max(self.worst, waited / bound)
        if expected and waited:
            self.ratios.append((self.now - asked) / expected)
        self.served += 1
        seconds = self.draw.lognormvariate(3.0, 0.5)
        user = self.known.get(ticket.owner, User())
        self.known[ticket.owner] = User(self.served, user.seconds, user.count).after(seconds)
        self.now += seconds
        if count > 1:
            self.join(ticket.owner, count - 1)


def simulated(seed: int) -> dict[str, Any]:
    """Fifty classes of 2,000 submissions, graded in pieces by commands that come and go."""
    worst, longest, served, killed = 0.0, 0, 0, 0
    ratios: list[float] = []
    for number in range(50):
        draw = random.Random(f"{seed} {number}")
        one = Simulation(draw, users=draw.randint(2, 12))
        while one.served < 2000:
            if len(one.waiting) < 20 and (draw.random() < 0.3 or not one.waiting):
                one.join(draw.randrange(one.users), draw.choice((1, 1, 1, 5, 400)))
            if one.waiting and draw.random() < 0.05:
                del one.waiting[draw.choice(list(one.waiting))]
                one.killed += 1
            if one.waiting:
                one.serve()
        worst, longest = max(worst, one.worst), max(longest, one.longest)
        served, killed = served + one.served, killed + one.killed
        ratios += one.ratios
    tenths = statistics.quantiles(ratios, n=10)
    return {
        "turns": served,
        "commands killed while they waited": killed,
        "longest wait, in turns": longest,
        "longest wait, relative to its bound": round(worst, 2),
        "real wait relative to the expected one, 10 %, median, 90 %": [
            round(tenths[i], 2) for i in (0, 4, 8)
        ],
    }


def beside_a_batch() -> dict[str, int]:
    """How many turns a single grade waits that comes after a batch of 400 of the same user."""
    one = Simulation(random.Random(0), users=1)
    one.join(1, 400)
    one.serve()
    one.join(1, 1)
    mine = one.number
    waited = next(n for n in itertools.count() if not (one.serve() or mine in one.waiting))
    return {"turns before it": waited, "turns before it, first come first served": 399}


if __name__ == "__main__":
    main()
