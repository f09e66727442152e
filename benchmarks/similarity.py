"""Which disguises of a copy `grader similar` finds, how often it suspects honest authors, how fast.

    python benchmarks/similarity.py [--authors FOLDER --given FOLDER] [--json FILE]
    python benchmarks/similarity.py --years 5 --students 400

The class consists of honest authors and one copier, who hands in another author's files in one of
the disguises of tests/grader/similarity/disguises.py. The benchmark prints the rank of that pair
among all pairs, for each disguise.

Without --authors, the authors come from the repository. For each problem, it has the reference, the
variants and the complete solutions of tests/grader/strangers. The first author takes the first of
them for each problem, the second author the second, and so on, so no two authors have the same
text; where no text is left, an author keeps the stub. They are not quite independent: whoever wrote
the variants knew the reference. With --authors, each folder in FOLDER is an author, such as a
student's repository, and --given is what they were given.

With --years, the benchmark measures the time and the memory for several classes of that size, whose
students mix the modules of the authors. The time for reading is that of the authors, times their
number.
"""

import argparse
import ast
import json
import os
import random
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import single

from grader.course import courses
from grader.course.courses import Course
from grader.similarity import pairs
from grader.similarity.pairs import Pair, Work
from grader.solutions import fragments
from tests.grader import strangers
from tests.grader.similarity.disguises import DISGUISES, disguised

VICTIMS = 4  # authors who are copied in each disguise
Sources = dict[str, str]


def texts_of(course: Course, problem: str) -> list[str]:
    """The solutions of a problem that were written separately; the reference is "".

    Wrong solutions that differ from another one in a few characters are left out.
    """
    found = [""] + [fragment.source for fragment in fragments.load(course.variants, problem)]
    if problem in strangers.PROBLEMS:
        found += strangers.complete(problem)
    return found


def made(course: Course, chosen: dict[str, str | None]) -> Sources:
    """A submission with one text for each problem; None leaves the problem's stubs."""
    found: Sources = {}
    for problem in course.problems:
        stub = (course.root / problem.path).read_text(encoding="utf-8")
        text = found.get(problem.path, stub)
        source = chosen[problem.id]
        if source is not None:
            # The reference is a text like others: its definitions of this problem.
            text = replaced(text, source or reference_of(course, problem.id))
        found[problem.path] = text
    return found


def reference_of(course: Course, problem: str) -> str:
    """The reference's module."""
    return course.reference_of(course.problem(problem))


def replaced(text: str, source: str) -> str:
    """The text with a source's definitions in place of its own."""
    try:
        return fragments.replaced(text, source)
    except (SyntaxError, ValueError):
        return text


def authors_of(course: Course) -> dict[str, Sources]:
    """As many authors as the repository has texts for most problems; no two share a text."""
    texts = {problem.id: texts_of(course, problem.id) for problem in course.problems}
    count = sorted(len(each) for each in texts.values())[len(texts) // 2]
    return {
        f"author {n}": made(
            course, {name: each[n] if n < len(each) else None for name, each in texts.items()}
        )
        for n in range(count)
    }


def authors_in(folder: Path) -> dict[str, Sources]:
    """Each folder's Python files that can be parsed."""
    found = {}
    for path in sorted(p for p in folder.iterdir() if p.is_dir()):
        sources = {}
        for file in sorted(path.rglob("*.py")):
            text = file.read_text(encoding="utf-8", errors="replace")
            try:
                ast.parse(text)
            except (SyntaxError, ValueError):
                continue
            sources[file.relative_to(path).as_posix()] = text
        found[path.name] = sources
    return found


def read(works: Sequence[Sources], jobs: int = 0) -> list[Work]:
    """The submissions as they are compared."""
    return pairs.works_of(
        [{path: text.encode() for path, text in work.items()} for work in works], jobs=jobs
    )


def rank(
    works: Sequence[Work], given: Sequence[str], victim: int
) -> tuple[int, Pair | None, float]:
    """The rank of the pair of a victim and the last, that pair, and the largest other amount."""
    index = pairs.index_of([works], given)
    found = pairs.ranked(index, len(works), threshold=0.01)
    copied = victim, len(works) - 1
    place = next((n for n, pair in enumerate(found) if (pair.one, pair.other) == copied), None)
    # A copier is like others in the same way as the victim is.
    others = [p.amount for p in found if copied[1] not in (p.one, p.other)]
    pair = None if place is None else found[place]
    ahead = sum(amount > (pair.amount if pair else 0) for amount in others)
    return ahead + 1, pair, max(others, default=0.0)


def table(
    authors: dict[str, Sources], given: Sequence[str], victims: Sequence[int]
) -> dict[str, object]:
    """For each disguise, the rank, amount and share of each copied pair."""
    names = list(authors)
    works = read(list(authors.values()), os.cpu_count() or 1)
    index = pairs.index_of([works], given)
    honest = pairs.ranked(index, len(works), threshold=0.01)
    print(
        f"{len(works)} authors, {len(works) * (len(works) - 1) // 2} pairs of them; the most alike:"
    )
    for pair in honest[:5]:
        print(f"  {pair.amount:6.1f}  {names[pair.one]} and {names[pair.other]}")
    false = sum(pair.amount >= pairs.THRESHOLD for pair in honest)
    print(f"pairs of honest authors from {pairs.THRESHOLD:g} on: {false}\n")
    print(f"{'disguise':<52} {'ranks':<14} amounts, and shares")
    rows = {}
    for name in DISGUISES:
        found = []
        for victim in victims:
            copy = disguised(authors[names[victim]], name, seed=victim)
            found.append(rank([*works, *read([copy])], given, victim))
        rows[name] = [(place, pair and round(pair.amount, 1)) for place, pair, _ in found]
        print(
            f"{name:<52} {' '.join(str(place) for place, *_ in found):<14} "
            + "  ".join(f"{p.amount:.0f} ({p.share:.0%})" if p else "-" for _, p, _ in found),
            flush=True,
        )
    return {"authors": len(works), "false pairs": false, "disguises": rows}


def scale(course: Course, given: Sequence[str], years: int, students: int) -> dict[str, object]:
    """Time and memory for several classes, whose students mix the modules of the authors."""
    authors = list(authors_of(course).values())
    started = time.process_time()
    read_once = read(authors)
    reading = (time.process_time() - started) / len(authors)
    rng = random.Random(0)
    works = [
        Work({path: rng.choice(read_once).files[path] for path in authors[0]})
        for _ in range(years * students)
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    groups = [works[n * students : (n + 1) * students] for n in range(years)]
    index = pairs.index_of(groups, given)
    listed = pairs.ranked(index, students)
    comparing = time.process_time() - started
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures = {
        "submissions": years * students,
        "CPU seconds for reading all": round(reading * years * students),
        "CPU seconds for comparing all": round(comparing, 1),
        "MiB for comparing all": (most - before) // 1024,
        "features of all": len(index.owners),
        "kinds of features that count": int((index.weights > 0).sum()),
        "pairs from the threshold on": len(listed),
    }
    for name, value in figures.items():
        print(f"{name:<30} {value}")
    return figures


def main() -> None:
    """Print the table of disguises, or the figures for a large class."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--authors", type=Path, help="a folder with one folder per author")
    parser.add_argument("--given", type=Path, help="the code that these authors were given")
    parser.add_argument("--years", type=int, help="measure the time for this many classes")
    parser.add_argument("--students", type=int, default=400, help="students of each class")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    course = courses.load()
    given = course.given_sources()
    if options.years:
        figures = scale(course, given, options.years, options.students)
    elif options.authors:
        authors = authors_in(options.authors)
        texts = [
            p.read_text(encoding="utf-8", errors="replace") for p in options.given.rglob("*.py")
        ]
        victims = sorted(random.Random(0).sample(range(len(authors)), VICTIMS))
        figures = table(authors, texts, victims)
    else:
        figures = table(authors_of(course), given, range(VICTIMS))
    if options.json:
        figures["environment"] = single.environment()
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
