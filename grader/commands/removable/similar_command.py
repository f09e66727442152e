"""The command that lists pairs of similar submissions."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from grader.base import files
from grader.base.errors import SubmissionRefused, UsageError
from grader.base.limited_reading import Readers
from grader.base.output_paths import Writes
from grader.classroom import gradebook
from grader.classroom.class_records import called
from grader.classroom.standings import Class
from grader.commands.class_commands import Book, Jobs, RulesOption, course_and_rules
from grader.commands.progress_line import advancing
from grader.commands.shared_options import Folder, app, option
from grader.course.courses import Course
from grader.sandbox.pool import usual_jobs
from kit.text import one_line

# grader.similarity imports numpy and the libraries for pages, so only this command imports it.
if TYPE_CHECKING:
    from grader.similarity.pairs import Index, Pair, Work
    from grader.similarity.similarity_report import Section


KEPT = 20  # submissions whose sources stay in memory while pages are written


@dataclass(frozen=True)
class _Compared:
    """A submission to compare: its name, and how to read its sources."""

    name: str
    sources: Callable[[], Mapping[str, bytes]]


@dataclass(frozen=True)
class _Cohort:
    """The class, or what `--against` names."""

    title: str
    submissions: list[_Compared]


@app.command()
def similar(
    book: Book,
    against: Annotated[list[Path] | None, option("--against FOLDER|GRADEBOOK")] = None,
    html: Annotated[Path | None, option("--html DIR"), Writes("html")] = None,
    threshold: Annotated[float | None, option("--threshold", min=0.0)] = None,
    top: Annotated[int, option("--top", min=1)] = 100,
    jobs: Jobs = None,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """List pairs of submissions that share unusual code: a reason to look, not a finding.

    Renaming, reformatting, reordering, annotations and dead code do not hide a copy. Code that the
    course provides, and code that more than a tenth of the class or of a former class shares, does
    not count. Files that are not Python are named.

    Args:
        against: Also compare the class with a former class's gradebook, or with a folder that has a
            folder, archive or .py file for each former student or public repository. May be given
            several times.
        html: Write web pages that compare each pair.
        threshold: The least unusual code that a pair shares, as a number of expressions (default:
            25).
        top: How many pairs to show of each comparison.
    """
    course, rules = course_and_rules(course_folder, rules_file, book)
    from grader.similarity import pairs, similarity_report

    least = pairs.THRESHOLD if threshold is None else threshold
    with files.together(), ExitStack() as stack:
        whole = Class(stack.enter_context(gradebook.reading(book)), course, rules)
        groups = [_Cohort("Inside the class", _of_class(whole))]
        groups += [_of_path(path, book, course, stack) for path in against or ()]
        every = [one for group in groups for one in group.submissions]
        works, unread = _read(every, jobs or usual_jobs())
        each = iter(works)
        of_groups = [list(itertools.islice(each, len(group.submissions))) for group in groups]
        index = pairs.index_of(of_groups, course.given_sources())
        found = pairs.ranked(index, len(groups[0].submissions), threshold=least)
        sections = _sections(found, groups, top)
        names = [one.name for one in every]
        if html:
            links = _write_pairs(html, sections, every, works, index)
            page = similarity_report.index(
                sections, names, title=whole.rules.title, threshold=least, unread=unread,
                link=links.__getitem__,
            )  # fmt: skip
            files.write(html / "index.html", page.encode("utf-8", "replace"))
    said = similarity_report.table(sections, names, threshold=least, unread=unread)
    files.say(said, needed=not html)
    if html:
        files.say(f"wrote {html / 'index.html'}\n", needed=False)


def _of_class(whole: Class, where: str = "") -> list[_Compared]:
    """What counts of each student."""
    standings = [one for one in whole.standings(problems=False) if one.sources]
    return [_Compared(called(s.student) + where, partial(whole.sources, s)) for s in standings]


def _of_path(path: Path, book: Path, course: Course, stack: ExitStack) -> _Cohort:
    """The submissions of a former class's gradebook, or the works in a folder."""
    from grader.similarity import corpus

    title, where = one_line(f"With {path}", 200), one_line(f" in {path.name}", 100)
    if path.is_dir():
        works = corpus.works_in(path)
        named = [one_line(one.name, 100) + where for one in works]
        readers = stack.enter_context(Readers[Path, corpus.Read](corpus.read, 1, kind=corpus.Read))
        sources = [partial(corpus.sources, one, readers) for one in works]
        return _Cohort(title, list(map(_Compared, named, sources)))
    if not path.exists():
        raise UsageError(f"--against {path}: there is no such folder or gradebook")
    if path.samefile(book):
        raise UsageError(f"--against {path}: this is the class itself")
    former = Class(stack.enter_context(gradebook.reading(path)), course)
    return _Cohort(title, _of_class(former, where))


def _read(every: Sequence[_Compared], jobs: int) -> tuple[list["Work"], list[str]]:
    """The submissions as they are compared, and what cannot be, with the reason."""
    from grader.similarity import pairs

    unread: list[str] = []

    def sources() -> Iterator[Mapping[str, bytes]]:
        for one in every:
            try:
                yield one.sources()
            except SubmissionRefused as e:
                unread.append(one_line(f"{one.name}: {e}", 300))
                yield {}

    with advancing("reading") as progress:
        works = pairs.works_of(
            sources(), jobs=jobs, progress=lambda done: progress("", done, len(every))
        )
    for one, work in zip(every, works, strict=True):
        if work.unread:
            listed = "; ".join(f"{path} {reason}" for path, reason in work.unread.items())
            unread.append(one_line(f"{one.name}: {listed}", 300))
    return works, unread


def _sections(found: Sequence["Pair"], groups: Sequence[_Cohort], top: int) -> list["Section"]:
    """The pairs of each group, of which the first `top` are shown."""
    from grader.similarity.similarity_report import Section

    sections, end = [], 0
    for group in groups:
        start, end = end, end + len(group.submissions)
        of_group = [pair for pair in found if start <= pair.other < end]
        sections.append(Section(group.title, of_group[:top], len(of_group), end - start))
    return sections


def _write_pairs(
    folder: Path,
    sections: Sequence["Section"],
    every: Sequence[_Compared],
    works: Sequence["Work"],
    index: "Index",
) -> dict["Pair", str]:
    """Write a page for each pair; return their names."""
    from grader.similarity import pairs, similarity_report

    files.make_folder(folder)
    links: dict["Pair", str] = {}
    names = [one.name for one in every]
    sources = lru_cache(KEPT)(lambda number: every[number].sources())
    for pair in (pair for section in sections for pair in section.pairs):
        links[pair] = f"pair-{len(links) + 1}.html"
        one, other = pair.one, pair.other
        page = similarity_report.side_by_side(
            pair, names, (works[one], works[other]), (sources(one), sources(other)),
            pairs.shared(index, pair),
        )  # fmt: skip
        files.write(folder / links[pair], page.encode("utf-8", "replace"))
    return links
