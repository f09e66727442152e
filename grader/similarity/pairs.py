"""Pairs of submissions that share unusual code, ranked.

What two students share counts the more, the fewer others have it (as words do in a search engine,
by the logarithm of how rare they are). The stubs, and what the course itself shows to students, do
not count at all.
"""

import itertools
import math
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from grader.similarity.fingerprints import Print, prints

THRESHOLD = 0.33  # the overlap from which a pair is worth a look; see benchmarks/similarity.py
COMMON = 0.1  # what more than this share of the class has counts for nothing
FEWEST_SHARED = 10  # fingerprints of a pair, below which it says nothing: about fifteen lines
FEWEST_COMMON = 4  # students who have to share something before it is common


@dataclass(frozen=True)
class Work:
    """What one student handed in, as fingerprints for each file."""

    files: dict[str, list[Print]]

    @property
    def hashes(self) -> set[int]:
        """The hashes of all files."""
        return {one.hash for found in self.files.values() for one in found}


@dataclass(frozen=True)
class Pair:
    """Two submissions.

    Attributes:
        one: The number of the first submission.
        other: The number of the second.
        overlap: How much unusual code they share, from 0 to 1; see `_overlap`.
        files: The share for each file that both have, the largest first.
        shared: The hashes that they share and that count.
    """

    one: int
    other: int
    overlap: float
    files: list[tuple[str, float]]
    shared: frozenset[int]


def works_of(
    submissions: Iterable[Mapping[str, bytes]],
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Work]:
    """The fingerprints of submissions; each different file is read once.

    Args:
        submissions: The sources of each.
        jobs: How many processes read them.
        progress: Is told how many files are read, of how many.
    """
    listed = list(submissions)
    texts = list({text for sources in listed for text in sources.values()})
    read = dict(zip(texts, _read(texts, jobs, progress), strict=True))
    return [Work({path: read[text] for path, text in sources.items()}) for sources in listed]


def _read(
    texts: list[bytes], jobs: int, progress: Callable[[int, int], None]
) -> Iterator[list[Print]]:
    if jobs == 1:
        yield from map(_prints, texts)
        return
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(jobs, context, initializer=_ignore_interrupts) as pool:
        try:
            for done, found in enumerate(pool.map(_prints, texts, chunksize=16), 1):
                progress(done, len(texts))
                yield found
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _prints(text: bytes) -> list[Print]:
    return prints(text.decode("utf-8", "replace"))


def _ignore_interrupts() -> None:
    """Ctrl-C ends the command, which ends these processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def ranked(
    works: Sequence[Work], given: Iterable[str] = (), *, threshold: float = THRESHOLD
) -> list[Pair]:
    """The pairs whose overlap is at least the threshold, the most alike first.

    Args:
        works: The submissions.
        given: Sources that everybody was given, such as stubs.
        threshold: The least overlap, from 0 to 1.
    """
    weights = _weights(works, given)
    read = [_counted(work, weights) for work in works]
    pairs = []
    for one, other in _that_share([files.values() for files in read]):
        files = _files(read[one], read[other], weights)
        overlap = _overlap(files)
        if overlap >= threshold:
            mine, its = (
                {h for file in read[of].values() for h in file.hashes} for of in (one, other)
            )
            shares = sorted(((f.path, f.share) for f in files), key=lambda item: -item[1])
            pairs.append(Pair(one, other, overlap, shares, frozenset(mine & its)))
    return sorted(pairs, key=lambda pair: (-pair.overlap, pair.one, pair.other))


@dataclass(frozen=True)
class _Counted:
    """What counts of one file: its unusual fingerprints, and how much they weigh together."""

    hashes: set[int]
    weight: float


def _counted(work: Work, weights: Mapping[int, float]) -> dict[str, _Counted]:
    found = {}
    for path, listed in work.files.items():
        hashes = {one.hash for one in listed} & weights.keys()
        found[path] = _Counted(hashes, sum(weights[h] for h in hashes))
    return found


def _weights(works: Sequence[Work], given: Iterable[str]) -> dict[int, float]:
    """How much each hash counts; one that is common or was given is not in it."""
    known = {one.hash for text in given for one in prints(text)}
    owners = Counter(h for work in works for h in work.hashes)
    most = max(FEWEST_COMMON, COMMON * len(works))
    return {
        h: math.log((len(works) + 1) / max(count, 2))  # what two share is as rare as can be
        for h, count in owners.items()
        if h not in known and count <= most
    }


def _that_share(works: Iterable[Iterable[_Counted]]) -> list[tuple[int, int]]:
    """The pairs that share enough to say anything about them."""
    owners: dict[int, list[int]] = {}
    for number, files in enumerate(works):
        for h in {h for file in files for h in file.hashes}:
            owners.setdefault(h, []).append(number)
    shared = Counter(pair for found in owners.values() for pair in itertools.combinations(found, 2))
    return [pair for pair, count in shared.items() if count >= FEWEST_SHARED]


@dataclass(frozen=True)
class _File:
    """What two submissions share of one file: its share, and how much the file counts."""

    path: str
    share: float
    weight: float


def _files(
    one: Mapping[str, _Counted], other: Mapping[str, _Counted], weights: Mapping[int, float]
) -> list[_File]:
    """Every file that both have: the share of the one that has less unusual code in it."""
    found = []
    for path in sorted(one.keys() & other.keys()):
        least = min(one[path].weight, other[path].weight)
        if least:
            both = sum(weights[h] for h in one[path].hashes & other[path].hashes)
            found.append(_File(path, min(1.0, both / least), least))
    return found


def _overlap(files: Sequence[_File]) -> float:
    """The mean of the squared shares, in which a file counts by its unusual code.

    The square makes one file that is copied whole count more than a little of every file: that
    happens to students who work alone, too.
    """
    total = sum(file.weight for file in files)
    return sum(file.weight * file.share**2 for file in files) / total if total else 0.0


def lines(found: Sequence[Print], shared: Iterable[int]) -> set[int]:
    """The lines of a file on which fingerprints that are shared lie."""
    counts = set(shared)
    return {line for one in found if one.hash in counts for line in range(one.first, one.last + 1)}
