"""Pairs of submissions that share unusual code, ranked by how much of it they share.

The fewer submissions have a feature, the more it counts: its weight is the logarithm of its rarity,
as for words in a search engine, and 1 for a feature that only two have. The stubs and other code
that the course gives to students do not count at all, nor does what many in one class have.
"""

import hashlib
import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grader.base.errors import MachineFault
from grader.similarity import normal_form
from grader.similarity.normal_form import Definition

# A pair is worth a look from this much unusual code on; see benchmarks/similarity.py.
THRESHOLD = 25.0
COMMON = 0.1  # code that more than this share of a class has does not count
FEWEST_COMMON = 4  # code is never common while no more than this many submissions have it
PRIOR = 4.0  # added to the weight of each definition: alone, a short one is no evidence
BATCH = 64  # submissions whose sources are in memory together
FEATURE = np.dtype([("hash", "u8"), ("first", "i4"), ("last", "i4"), ("unit", "i4")])
Features = npt.NDArray[np.void]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Code:
    """One file as it is compared.

    Attributes:
        features: Its features, as an array of FEATURE; `unit` is an index of `units`.
        units: Its definitions. The last unit is everything outside of definitions.
    """

    features: Features
    units: list[Definition]


@dataclass(frozen=True)
class Work:
    """One submission, by file. `unread` lists the files that are not Python."""

    files: dict[str, Code]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """Two submissions that are alike.

    Attributes:
        one: The number of a submission of the class.
        other: The number of the other submission, among all.
        amount: How much unusual code they share; see `_amounts`.
        share: This is the share of the unusual code of one of them, from 0 to 1.
    """

    one: int
    other: int
    amount: float
    share: float


# --- reading --------------------------------------------------------------------------------------


def works_of(
    submissions: Iterable[Mapping[str, bytes]],
    *,
    jobs: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Work]:
    """Read submissions; identical files are read once.

    Args:
        submissions: The sources of each submission. Only BATCH of them are in memory at a time.
        jobs: The number of processes that read them; 0 to read them in this one.
        progress: Called with the number of submissions read so far.
    """
    known: dict[bytes, Code | None] = {}
    works: list[Work] = []
    each = iter(submissions)
    with _Readers(jobs) as readers:
        while batch := list(itertools.islice(each, BATCH)):
            texts = {_digest(t): t for sources in batch for p, t in sources.items() if _is_code(p)}
            new = {key: text for key, text in texts.items() if key not in known}
            known |= zip(new, readers.read(list(new.values())), strict=True)
            works += [_work(sources, known) for sources in batch]
            progress(len(works))
    return works


def _work(sources: Mapping[str, bytes], known: Mapping[bytes, Code | None]) -> Work:
    each = {path: known[_digest(text)] for path, text in sources.items() if _is_code(path)}
    files = {path: code for path, code in each.items() if code is not None}
    return Work(files, tuple(sorted(each.keys() - files.keys())))


def _is_code(path: str) -> bool:
    return path.endswith(".py")


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


class _Readers:
    """Processes that read files. If a file kills its process, only this file is not read."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.pool = self._pool() if jobs else None

    def _pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("forkserver")
        return ProcessPoolExecutor(self.jobs, context, initializer=_ignore_interrupts)

    def __enter__(self) -> "_Readers":
        return self

    def __exit__(self, *error: object) -> None:
        if self.pool:
            self.pool.shutdown(wait=error[0] is None, cancel_futures=True)

    def read(self, texts: list[bytes]) -> list[Code | None]:
        """The files as they are compared; None for each that cannot be read."""
        if self.pool is None:
            return [code_of(text) for text in texts]
        try:
            return list(self.pool.map(code_of, texts, chunksize=8))
        except BrokenProcessPool:
            self.pool = self._pool()
        return [self._alone(text) for text in texts]

    def _alone(self, text: bytes) -> Code | None:
        assert self.pool
        try:
            return self.pool.submit(code_of, text).result()
        except BrokenProcessPool:
            self.pool = self._pool()
        try:
            self.pool.submit(code_of, b"").result()
        except BrokenProcessPool:
            raise MachineFault("the processes that read submissions end at once") from None
        return None


def code_of(text: bytes) -> Code | None:
    """One file as it is compared; None if it is not Python."""
    try:
        found, definitions = normal_form.read(text.decode("utf-8-sig", "replace"))
    except SyntaxError:
        return None
    starts = [one.first for one in definitions]
    rows = []
    for one in found:
        unit = int(np.searchsorted(starts, one.first, side="right")) - 1
        inside = unit >= 0 and one.first <= definitions[unit].last
        rows.append((*one, unit if inside else len(definitions)))
    return Code(np.array(rows, FEATURE), [*definitions, Definition("", 1, 1)])


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker: the command handles it, and then stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# --- comparing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Index:
    """The features that count, of all submissions, sorted by hash.

    Attributes:
        hashes: Each feature that counts.
        weights: Its weight.
        starts: Where its owners start in `owners`, and the end of the last.
        owners: The numbers of the submissions that have it.
        of: For each submission, the indices of its features, and the unit of each, counted through
            all its files.
    """

    hashes: Hashes
    weights: npt.NDArray[np.float64]
    starts: npt.NDArray[np.intp]
    owners: npt.NDArray[np.int32]
    of: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]


def index_of(groups: Sequence[Sequence[Work]], given: Iterable[str] = ()) -> Index:
    """Index all submissions, group after group; what is given or common in a group is left out."""
    known = [c.features["hash"] for text in given if (c := code_of(text.encode()))]
    flat = [_flat(work) for group in groups for work in group]
    count = len(flat)
    sizes = [len(hashes) for hashes, _ in flat]
    every = np.concatenate([hashes for hashes, _ in flat] or [np.empty(0, np.uint64)])
    owners = np.repeat(np.arange(count, dtype=np.int32), sizes)
    hashes, place, owned = np.unique(every, return_inverse=True, return_counts=True)
    counts = ~np.isin(hashes, np.concatenate([*known, np.empty(0, np.uint64)]))
    ends = np.cumsum([len(group) for group in groups])
    for end, group in zip(ends, groups, strict=True):
        inside = (owners >= end - len(group)) & (owners < end)
        having = np.bincount(place[inside], minlength=len(hashes))
        counts &= having <= max(FEWEST_COMMON, COMMON * len(group))
    weights = np.log((count + 1) / np.maximum(owned, 2)) / np.log((max(count, 2) + 1) / 2)
    order = np.argsort(place, kind="stable")
    parts = np.split(place, np.cumsum(sizes)[:-1]) if sizes else []
    return Index(
        hashes=hashes,
        weights=np.where(counts, np.maximum(weights, 0), 0),
        starts=np.concatenate([[0], np.cumsum(owned)]),
        owners=owners[order],
        of=[(part, units) for part, (_, units) in zip(parts, flat, strict=True)],
    )


def _flat(work: Work) -> tuple[Hashes, npt.NDArray[np.intp]]:
    """Each feature of all files once, and its unit."""
    hashes, units, before = [np.empty(0, np.uint64)], [np.empty(0, np.intp)], 0
    for path in sorted(work.files):
        code = work.files[path]
        hashes.append(code.features["hash"])
        units.append(code.features["unit"].astype(np.intp) + before)
        before += len(code.units)
    found, first = np.unique(np.concatenate(hashes), return_index=True)
    return found, np.concatenate(units)[first]


def _amounts(index: Index, one: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """How much of a submission's unusual code each submission has, and the share that this is.

    A definition counts with the weight of its features times the square of the share that the other
    has, too. Because of the square, a definition that is copied whole counts more than small
    overlaps everywhere, which also occur between students who work alone.
    """
    places, units = index.of[one]
    count = len(index.of)
    weights = index.weights[places]
    kept = weights > 0
    places, units, weights = places[kept], units[kept], weights[kept]
    sizes = index.starts[places + 1] - index.starts[places]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    steps = np.arange(total) - np.repeat(ends - sizes, sizes)
    who = index.owners[np.repeat(index.starts[places], sizes) + steps]
    _, unit = np.unique(units, return_inverse=True)
    number = int(unit.max()) + 1 if len(unit) else 0
    both = np.bincount(
        np.repeat(unit, sizes) * count + who, np.repeat(weights, sizes), number * count
    ).reshape(number, count)
    whole = np.bincount(unit, weights, number)
    amounts = (both**2 / (whole[:, None] + PRIOR)).sum(axis=0)
    return amounts, both.sum(axis=0) / max(whole.sum(), 1e-9)


def ranked(index: Index, count: int, *, threshold: float = THRESHOLD) -> list[Pair]:
    """The pairs of a class, and of the class with others, the most alike first.

    Args:
        index: All submissions; the first of them are the class.
        count: The number of submissions in the class.
        threshold: The smallest amount of unusual code.
    """
    best: dict[tuple[int, int], Pair] = {}
    for one in range(len(index.of)):
        amounts, shares = _amounts(index, one)
        until = len(amounts) if one < count else count  # others are not compared with each other
        for other in np.flatnonzero(amounts[:until] >= threshold).tolist():
            if other == one:
                continue
            key = min(one, other), max(one, other)
            amount = float(amounts[other])
            if key not in best or best[key].amount < amount:
                best[key] = Pair(*key, amount, float(shares[other]))
    return sorted(best.values(), key=lambda pair: (-pair.amount, pair.one, pair.other))


def shared(index: Index, pair: Pair) -> dict[int, float]:
    """The features that count and that both submissions have, with their weights."""
    both = np.intersect1d(index.of[pair.one][0], index.of[pair.other][0])
    both = both[index.weights[both] > 0]
    return dict(zip(index.hashes[both].tolist(), index.weights[both].tolist(), strict=True))
