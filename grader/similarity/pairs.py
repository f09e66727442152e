"""Pairs of submissions that share unusual code, ranked.

The fewer students share a piece of code, the more it counts: its weight is the logarithm of its
rarity, as for words in a search engine. The stubs and other code that the course gives to students
do not count at all.
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

# A pair is worth a look from this overlap on; see benchmarks/similarity.py.
THRESHOLD = 0.33
COMMON = 0.1  # code that more than this share of the class has does not count
# A pair that shares fewer fingerprints than this, about fifteen lines, is ignored.
FEWEST_SHARED = 10
# Code is never common while no more than this many students share it.
FEWEST_COMMON = 4


@dataclass(frozen=True)
class Work:
    """One student's submission, as the fingerprints of each file."""

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
        files: For each file that both have, the share that is alike; the largest share first.
        shared: The hashes that count and that both have.
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
    """The fingerprints of submissions; identical files are read once.

    Args:
        submissions: The sources of each submission.
        jobs: The number of processes that read them.
        progress: Called with the number of files read so far and the number of all files.
    """
    listed = list(submissions)
    listed = [
        {path: text for path, text in sources.items() if path.endswith(".py")} for sources in listed
    ]
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
    """Ignore Ctrl-C in a worker: the command handles it, and then stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def ranked(
    works: Sequence[Work], given: Iterable[str] = (), *, threshold: float = THRESHOLD
) -> list[Pair]:
    """The pairs whose overlap is at least the threshold, the most alike first.

    Args:
        works: The submissions.
        given: Sources that every student got, such as stubs.
        threshold: The smallest overlap, from 0 to 1.
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
    """The part of one file that counts: its unusual fingerprints, and their total weight."""

    hashes: set[int]
    weight: float


def _counted(work: Work, weights: Mapping[int, float]) -> dict[str, _Counted]:
    found = {}
    for path, listed in work.files.items():
        hashes = {one.hash for one in listed} & weights.keys()
        found[path] = _Counted(hashes, sum(weights[h] for h in hashes))
    return found


def _weights(works: Sequence[Work], given: Iterable[str]) -> dict[int, float]:
    """The weight of each hash; common hashes and those of given code are left out."""
    known = {one.hash for text in given for one in prints(text)}
    owners = Counter(h for work in works for h in work.hashes)
    most = max(FEWEST_COMMON, COMMON * len(works))
    return {
        # A hash that counts for a pair has at least two owners.
        h: math.log((len(works) + 1) / max(count, 2))
        for h, count in owners.items()
        if h not in known and count <= most
    }


def _that_share(works: Iterable[Iterable[_Counted]]) -> list[tuple[int, int]]:
    """The pairs that share enough fingerprints to be compared."""
    owners: dict[int, list[int]] = {}
    for number, files in enumerate(works):
        for h in {h for file in files for h in file.hashes}:
            owners.setdefault(h, []).append(number)
    shared = Counter(pair for found in owners.values() for pair in itertools.combinations(found, 2))
    return [pair for pair, count in shared.items() if count >= FEWEST_SHARED]


@dataclass(frozen=True)
class _SharedFile:
    """One file of two submissions: the share that is alike, and the file's weight."""

    path: str
    share: float
    weight: float


def _files(
    one: Mapping[str, _Counted], other: Mapping[str, _Counted], weights: Mapping[int, float]
) -> list[_SharedFile]:
    """Every file that both have; its share is relative to the side with less unusual code."""
    found = []
    for path in sorted(one.keys() & other.keys()):
        least = min(one[path].weight, other[path].weight)
        if least:
            both = sum(weights[h] for h in one[path].hashes & other[path].hashes)
            found.append(_SharedFile(path, min(1.0, both / least), least))
    return found


def _overlap(files: Sequence[_SharedFile]) -> float:
    """The mean of the squared shares, weighted by each file's unusual code.

    Because of the square, one file that is copied whole counts more than small overlaps in every
    file, which also occur between students who work alone.
    """
    total = sum(file.weight for file in files)
    return sum(file.weight * file.share**2 for file in files) / total if total else 0.0


def lines(found: Sequence[Print], shared: Iterable[int]) -> set[int]:
    """The lines of a file that shared fingerprints cover."""
    counts = set(shared)
    return {line for one in found if one.hash in counts for line in range(one.first, one.last + 1)}
