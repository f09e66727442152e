"""Pairs of submissions that share unusual code, ranked by how much of it they share.

The fewer submissions have a feature, the more it counts: its weight is the logarithm of its rarity,
as for words in a search engine, and 1 for a feature that only two have. The stubs and other code
that the course gives to students do not count at all, nor does what many in one class have.
"""

import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from grader.base.limited_reading import Readers, Unread
from grader.similarity import normal_form
from grader.similarity.normal_form import Definition

# A pair is worth a look from this much unusual code on.
THRESHOLD = 25.0
COMMON = 0.1  # code that more than this share of a class has does not count
FEWEST_COMMON = 4  # code is never common while no more than this many submissions have it
PRIOR = 4.0  # added to the weight of each definition: alone, a short one is no evidence
BATCH = 64  # submissions whose sources are in memory together
MAX_FEATURES = 30_000  # of one file
MAX_FEATURES_OF_ALL = 200_000  # of one submission; files beyond it are left out
BLOCK = 2_000_000  # numbers that are in memory together while a submission is compared
FEATURE = np.dtype([("hash", "u8"), ("first", "i4"), ("last", "i4"), ("unit", "i4")])
Features = npt.NDArray[np.void]
Hashes = npt.NDArray[np.uint64]
Packed = tuple[bytes, list[Definition]]


@dataclass(frozen=True)
class Code:
    """One file as it is compared."""

    features: Features  # its features, as an array of FEATURE; `unit` is an index of `units`
    # Its definitions. The last unit is everything outside of definitions.
    units: list[Definition]


@dataclass(frozen=True)
class Work:
    """One submission, by file. `unread` has the other files, each with the reason."""

    files: dict[str, Code]
    unread: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """Two submissions that are alike."""

    one: int  # the number of a submission of the class
    other: int  # the number of the other submission, among all
    amount: float  # how much unusual code they share; see `_amounts`
    share: float  # this is the share of the unusual code of one of them, from 0 to 1


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
    if not jobs:
        return _works(submissions, lambda texts: [code_of(text) for text in texts], progress)
    with Readers(packed, jobs, kind=Packed) as readers:
        return _works(submissions, lambda texts: [*map(unpacked, readers.each(texts))], progress)


def _works(
    submissions: Iterable[Mapping[str, bytes]],
    read: Callable[[list[bytes]], list[Code | Unread]],
    progress: Callable[[int], None],
) -> list[Work]:
    known: dict[bytes, Code | Unread] = {}
    works: list[Work] = []
    each = iter(submissions)
    while batch := list(itertools.islice(each, BATCH)):
        texts = {_digest(t): t for sources in batch for p, t in sources.items() if _is_code(p)}
        new = {key: text for key, text in texts.items() if key not in known}
        known |= zip(new, read(list(new.values())), strict=True)
        works += [_work(sources, known) for sources in batch]
        progress(len(works))
    return works


def _work(sources: Mapping[str, bytes], known: Mapping[bytes, Code | Unread]) -> Work:
    work, left = Work({}), MAX_FEATURES_OF_ALL
    for path in sorted(filter(_is_code, sources)):
        code = known[_digest(sources[path])]
        if isinstance(code, Unread):
            work.unread[path] = code.reason
        elif len(code.features) > left:
            work.unread[path] = f"is beyond the first {MAX_FEATURES_OF_ALL:,} expressions"
        else:
            work.files[path] = code
            left -= len(code.features)
    return work


def _is_code(path: str) -> bool:
    return path.endswith(".py")


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def code_of(text: bytes) -> Code | Unread:
    """One file as it is compared; `Unread` if it is not Python, or too much."""
    try:
        found, definitions = normal_form.read(text.decode("utf-8-sig", "replace"))
    except SyntaxError as e:
        return Unread(str(e))
    if len(found) > MAX_FEATURES:
        return Unread(f"has more than {MAX_FEATURES:,} different expressions")
    starts = [one.first for one in definitions]
    rows = []
    for one in found:
        unit = bisect_right(starts, one.first) - 1
        inside = unit >= 0 and one.first <= definitions[unit].last
        rows.append((*one, unit if inside else len(definitions)))
    return Code(np.array(rows, FEATURE), [*definitions, Definition("", 1, 1)])


def packed(text: bytes) -> Packed | Unread:
    """What `code_of` returns, as plain data."""
    code = code_of(text)
    return code if isinstance(code, Unread) else (code.features.tobytes(), code.units)


def unpacked(found: Packed | Unread) -> Code | Unread:
    """What was `packed`."""
    return found if isinstance(found, Unread) else Code(np.frombuffer(found[0], FEATURE), found[1])


@dataclass(frozen=True)
class Index:
    """The features that count, of all submissions, sorted by hash."""

    hashes: Hashes  # each feature that counts
    weights: npt.NDArray[np.float64]  # the weight
    starts: npt.NDArray[np.intp]  # where its owners start in `owners`, and the end of the last
    owners: npt.NDArray[np.int32]  # the numbers of the submissions that have it
    # For each submission, the indices of its features, and the unit of each, counted through all
    # its files.
    of: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]


def index_of(groups: Sequence[Sequence[Work]], given: Iterable[str] = ()) -> Index:
    """Index all submissions, group after group; what is given or common in a group is left out."""
    read = (code_of(text.encode()) for text in given)
    known = [code.features["hash"] for code in read if isinstance(code, Code)]
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
    kept = index.weights[places] > 0
    _, unit = np.unique(units[kept], return_inverse=True)
    order = np.argsort(unit, kind="stable")
    places, unit = places[kept][order], unit[order]
    whole = np.bincount(unit, index.weights[places])
    count = len(index.of)
    amounts, shares = np.zeros(count), np.zeros(count)
    rows = max(1, BLOCK // count)
    for start in range(0, len(whole), rows):
        block = whole[start : start + rows]
        first, end = np.searchsorted(unit, (start, start + rows))
        both = _both(index, places[first:end], unit[first:end] - start, len(block))
        amounts += (both**2 / (block[:, None] + PRIOR)).sum(axis=0)
        shares += both.sum(axis=0)
    return amounts, shares / max(whole.sum(), 1e-9)


def _both(
    index: Index, places: npt.NDArray[np.intp], unit: npt.NDArray[np.intp], number: int
) -> npt.NDArray[np.float64]:
    """For each of a number of units, how much of these features of it each submission has."""
    count = len(index.of)
    sizes = index.starts[places + 1] - index.starts[places]
    ends = np.cumsum(sizes)
    steps = np.arange(int(ends[-1])) - np.repeat(ends - sizes, sizes)
    who = index.owners[np.repeat(index.starts[places], sizes) + steps]
    weights = np.repeat(index.weights[places], sizes)
    where = np.repeat(unit, sizes) * count + who
    found = np.bincount(where, weights, number * count).reshape(number, count)
    return np.asarray(found, np.float64)


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
