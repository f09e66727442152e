"""Copies are found, independent solutions are not, and code that everybody has does not count."""

import itertools
import sys
from functools import cache, partial

import pytest

from grader.base.errors import UsageError
from grader.base.limited_reading import Readers
from grader.similarity import corpus, pairs, similarity_report
from kit.handing_in import zipped
from tests.grader.analysis.sample_gradebooks import class_of, passed
from tests.grader.report.sample_results import HOSTILE
from tests.grader.sampling import every
from tests.grader.similarity.copies import COURSE, authors, disguised
from tests.handout.browsing import serious

TESTS = {"linear": [passed("a")], "adamw": [passed("b")]}
AUTHORS = authors()
# Ten students: each of the first five authors has written one half of the course.
CLASS = [
    {f"assignment/{path}": text for path, text in list(author.items())[half::2]}
    for author in AUTHORS[:5]
    for half in (0, 1)
]
longest = partial(max, key=len)
SHOWN = b"\n".join(AUTHORS[5].values())  # what an instructor may have shown


@cache
def class_works():
    """The parsed submissions of the class."""
    return pairs.works_of(CLASS)


@cache
def shown_works():
    """What an instructor may have shown, parsed."""
    return pairs.works_of([{"assignment/shown.py": SHOWN}])[0].files


@cache
def copy():
    """A copy of number 3 in all disguises."""
    return disguised(CLASS[3])


def copy_works():
    return pairs.works_of([copy()])[0]


def having(works):
    """These submissions, each with what was shown."""
    return [pairs.Work(work.files | shown_works()) for work in works]


def ranked(*groups, given=(), threshold=pairs.THRESHOLD):
    """The pairs of the first group, and of it with the others."""
    return pairs.ranked(pairs.index_of(groups, given), len(groups[0]), threshold=threshold)


def both(found):
    """The numbers of the submissions of each pair."""
    return [(pair.one, pair.other) for pair in found]


def test_a_disguised_copy_is_the_only_pair():
    """Independent submissions are not listed, and the amount says how much is shared."""
    (pair,) = ranked([*class_works(), copy_works()])
    assert (3, 10) == (pair.one, pair.other)
    assert pair.amount > 100
    assert 0.9 < pair.share <= 1


def test_independent_right_solutions_are_no_pair():
    """They solve the same problems, also if two are the whole class."""
    works = pairs.works_of(AUTHORS)
    given = COURSE.given_sources()
    assert [] == ranked(works, given=given)
    assert [] == ranked([works[0], works[3]], given=given)


def test_much_shared_code_comes_before_a_large_share():
    """A whole short file that two have is less than half of two long ones."""
    long, short = longest(CLASS[3].values()), min(AUTHORS[5].values(), key=len)
    few = [{"a.py": short}, {"a.py": short}, {"a.py": long, "b.py": longest(AUTHORS[5].values())}]
    found = ranked([*class_works(), *pairs.works_of(few)], threshold=1.0)
    assert [(3, 12), (10, 11)] == both(found)[:2]
    assert found[0].share < found[1].share == 1.0


def test_a_copy_that_moved_to_another_file_is_found():
    """Files are not compared by name."""
    (moved,) = pairs.works_of([{"main.py": b"\n".join(reversed(CLASS[4].values()))}])
    assert [(4, 10)] == both(ranked([*class_works(), moved]))


def test_what_was_given_counts_for_nothing():
    """Two students who leave a long stub, or copy the handout's code, are not a pair.

    Without it they are one, also as a class of two.
    """
    works = having(class_works()[:2])
    assert [(0, 1)] == both(ranked(works))
    assert [] == ranked(works, given=[SHOWN.decode()])
    (otherwise,) = disguised({"": SHOWN}, "operands swapped").values()
    assert [] == ranked(works, given=[otherwise.decode()])


def test_what_much_of_the_class_has_counts_for_nothing():
    """For example, an instructor may have shown the solution of an exercise."""
    works = class_works()
    assert [] == ranked([*having(works[:6]), *works[6:]])
    assert [(0, 1)] == both(ranked([*having(works[:2]), *works[2:]]))


def test_former_classes_are_compared_with_the_class_only():
    """Pairs of two former students are nobody's concern."""
    former = [*class_works()[6:], copy_works(), copy_works()]
    found = ranked(class_works()[:6], former)
    assert [(3, 10), (3, 11)] == both(found)
    assert all(pair.one < 6 <= pair.other for pair in found)


def test_what_half_of_a_former_class_has_is_usual():
    """It is as usual as what half of this class has, although only one student has it now."""
    works = class_works()
    now, former = [*having(works[:1]), *works[1:4]], having(works[4:])
    assert [] == ranked(now, former)
    assert [] == ranked(now, former, 15 * works[4:])  # however many others there are
    assert [(0, 4)] == both(ranked(now, [*having(works[4:5]), *works[5:]]))


def test_nothing_handed_in_is_nothing_alike():
    """This covers an empty class, an empty file, and a file that is not valid Python."""
    assert [] == ranked([])
    odd = [{}, {"assignment/m.py": b""}, {"assignment/m.py": b"\xff\x00(" * 500}]
    assert [] == ranked(pairs.works_of(odd))


def test_processes_read_the_same(tmp_path):
    """Batches, identical files and several processes make no difference."""
    found = pairs.works_of(CLASS, jobs=2)
    for one, other in zip(class_works(), found, strict=True):
        assert one.files.keys() == other.files.keys()
        assert all((one.files[p].features == other.files[p].features).all() for p in one.files)


def test_a_class_of_many_definitions_is_compared_in_blocks(monkeypatch):
    """The blocks, which limit the memory, change nothing."""
    works = [*class_works(), copy_works()]
    whole = ranked(works)
    monkeypatch.setattr(pairs, "BLOCK", 20)
    for one, other in zip(whole, ranked(works), strict=True):
        assert (one.one, one.other) == (other.one, other.other)
        assert one.amount == pytest.approx(other.amount)
        assert one.share == pytest.approx(other.share)


def test_what_is_beyond_the_limits_is_named(monkeypatch):
    """One file has too many different expressions; of many files, only the first count."""
    sources = dict.fromkeys(("a.py", "b.py", "c.py"), SHOWN)
    sources["d.py"] = SHOWN + longest(CLASS[0].values())
    large, small = (len(pairs.code_of(sources[path]).features) for path in ("d.py", "a.py"))
    monkeypatch.setattr(pairs, "MAX_FEATURES", large - 1)
    monkeypatch.setattr(pairs, "MAX_FEATURES_OF_ALL", 2 * small)
    (work,) = pairs.works_of([sources])
    assert {"a.py", "b.py"} == work.files.keys()
    assert {
        "c.py": f"is beyond the first {2 * small} expressions",
        "d.py": f"has more than {large - 1} different expressions",
    } == work.unread


# --- a folder to compare with ---------------------------------------------------------------------


def test_a_folder_has_a_work_for_each_folder_archive_and_file(tmp_path):
    """Hidden files, other people's packages and links are left out."""
    skipped = [f"ada/{name}/x.py" for name in (*corpus.SKIPPED, ".git")]
    assert {"ada/venv/x.py", "ada/site-packages/x.py", "ada/node_modules/x.py"} < {*skipped}
    for path in ("ada/a.py", "ada/sub/b.py", ".hidden/z.py", *skipped):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x = 1")
    (tmp_path / "loose.py").write_text("x = 1")
    (tmp_path / "notes.txt").write_text("no code")
    (tmp_path / "link").symlink_to(tmp_path / "ada")
    (tmp_path / "ada" / "linked.py").symlink_to("/etc/passwd")
    (tmp_path / "bob.zip").write_bytes(zipped({"assignment/c.py": b"x = 1"}))
    with Readers(corpus.read, 1, kind=corpus.Read) as readers:
        works = corpus.works_in(tmp_path)
        found = {path.name: sorted(corpus.sources(path, readers)) for path in works}
    assert {
        "ada": ["a.py", "sub/b.py"], "bob.zip": ["assignment/c.py"], "loose.py": ["loose.py"]
    } == found  # fmt: skip


def test_a_repository_is_one_work(tmp_path):
    """Its folders are not works of their own."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1")
    assert [tmp_path] == corpus.works_in(tmp_path)


def test_a_folder_without_code_is_refused(tmp_path):
    """The message says what is expected."""
    with pytest.raises(UsageError, match="expected a gradebook, or a folder with folders"):
        corpus.works_in(tmp_path)


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path):
    """A gradebook of four students, two of whom have the same code in a disguise."""
    path = tmp_path / "class.sqlite"
    works = {"ada": CLASS[3], "bob": CLASS[1], "eve": copy(), "zoe": CLASS[2]}
    students = {name: ({"name": f"The {name}"}, TESTS) for name in works}
    with class_of(path, students, sources=works):
        pass
    return path


@pytest.fixture
def similar(typed):
    """Run the command in this process; return its exit code and what it says."""
    return lambda *arguments: typed.all("similar", *arguments, "--jobs", "1")


def test_the_command_ranks_and_writes_pages(book, tmp_path, similar):
    """The table says that it is not a finding; each pair has a page with both sources."""
    out = tmp_path / "similar"
    code, said = similar(book, "--html", out)
    assert 0 == code
    assert "Inside the class: 1 pair from 25 on" in said
    assert "The ada (ada) and The eve (eve)" in said
    assert "not a finding" in said
    assert {"index.html", "pair-1.html"} == {path.name for path in out.iterdir()}
    index = (out / "index.html").read_text()
    assert 'href="pair-1.html">The ada (ada) and The eve (eve)</a>' in index
    assert "not a finding" in index


def test_other_classes_have_sections_of_their_own(book, tmp_path, similar):
    """A former class's gradebook and a folder of repositories, with a broken archive."""
    former = tmp_path / "former.sqlite"
    names = {"old": ({"name": "The old"}, TESTS)}
    with class_of(former, names, sources={"old": disguised(CLASS[1], "renaming")}):
        pass
    repository = tmp_path / "public" / "someone"
    repository.mkdir(parents=True)
    (repository / "all.py").write_bytes(b"\n".join(disguised(CLASS[2], "other words").values()))
    (tmp_path / "public" / "broken.zip").write_bytes(b"PK")
    code, said = similar(book, "--against", former, "--against", tmp_path / "public")
    assert 0 == code
    inside, old, public = said.split(": 1 pair from 25 on")[1:]
    assert "ada) and The eve (eve)" in inside
    assert "The bob (bob) and The old (old) in former.sqlite" in old
    assert "The zoe (zoe) and someone in public" in public
    assert "not compared: broken.zip in public" in public


def test_an_archive_of_several_pages_is_read_once_for_them(book, tmp_path, similar, monkeypatch):
    """The first time, it is read to be compared."""
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "someone.zip").write_bytes(zipped(CLASS[3]))
    times, real = itertools.count(), corpus.sources
    counted = lambda *given: (next(times), real(*given))[1]  # noqa: E731
    monkeypatch.setattr(corpus, "sources", counted)
    said = similar(book, "--against", tmp_path / "public", "--html", tmp_path / "pages")[1]
    assert "2 pairs" in (tmp_path / "pages" / "index.html").read_text(), said
    assert 2 == next(times)


def test_more_pairs_than_shown_are_counted(tmp_path, similar):
    """`--top 1` of three pairs says so."""
    path = tmp_path / "class.sqlite"
    works = dict.fromkeys(("a", "b", "c"), CLASS[3])
    with class_of(path, {name: ({}, TESTS) for name in works}, sources=works):
        pass
    assert "Inside the class: the first 1 of 3 pairs from 25 on" in similar(path, "--top", 1)[1]


def test_hostile_files_cost_only_their_owner(tmp_path, similar):
    """A file that needs more than a gigabyte to parse is named, and the others are compared."""
    path = tmp_path / "class.sqlite"
    works = {"ada": CLASS[3], "eve": copy()}
    large = f"x = {'(' * 190}{'y, ' * 130_000}{')' * 190}".encode()
    works["bob"] = {"a.py": large, "b.py": b"class class"}
    with class_of(path, {name: ({}, TESTS) for name in works}, sources=works):
        pass
    code, said = similar(path)
    assert 0 == code
    assert "ada and eve" in said
    assert (
        "not compared: bob: a.py is nested too deeply, or too large; b.py is not Python: invalid"
    ) in said


def test_the_class_itself_is_refused(book, similar):
    """It would be a copy of itself."""
    code, said = similar(book, "--against", book)
    assert 2 == code
    assert "this is the class itself" in said


def test_nothing_hostile_reaches_the_terminal(tmp_path, similar):
    """Names of students, folders and files are untrusted."""
    folder = tmp_path / "other"
    folder.mkdir()
    for n, text in enumerate(HOSTILE):
        name = text.replace("/", "_").replace("\0", "_").encode("utf-8", "replace")[:80]
        (folder / f"{n}{name.decode('utf-8', 'ignore')}.py").write_text("def")
    path = tmp_path / "class.sqlite"
    texts = [text.encode("utf-8", "replace").decode() for text in HOSTILE]
    students = {f"s{n}": ({"name": text}, TESTS) for n, text in enumerate(texts)}
    with class_of(path, students, sources=dict.fromkeys(students, CLASS[3])):
        pass
    code, said = similar(path, "--against", folder, "--threshold", 0)
    assert 0 == code
    assert not {c for c in said if (ord(c) < 32 and c != "\n") or c in "\u202e\u2066\x7f\x9b"}


# --- pages ----------------------------------------------------------------------------------------


def test_similar_lines_name_their_partners():
    """The copy's line that is most like it stands next to each marked line."""
    formatted = disguised(CLASS[3], "a formatter, comments removed")
    sources = formatted, disguised(formatted, "another order")
    works = tuple(pairs.works_of(sources))
    index = pairs.index_of([works])
    (pair,) = pairs.ranked(index, 2)
    places = similarity_report.places(works, sources, pairs.shared(index, pair))
    assert places[0].amount >= places[-1].amount
    assert all(one.split(": ")[-1] == other.split(": ")[-1] for one, other in
               (place.names for place in places))  # fmt: skip
    marked, exact = 0, 0
    for place in places:
        right = {line.number: line.text.strip() for line in place.other}
        found = [line for line in place.one if line.other]
        marked += len(found)
        exact += sum(right[line.other] == line.text.strip() for line in found)
    assert marked > 50
    assert exact > 0.7 * marked


def test_a_page_of_two_colluders_is_linear_in_their_code():
    """Four times as many equal functions take about four times as many operations of Python."""

    def operations(count):
        lines = [f"def f{n}(x): return (x * {n}.5 + y) @ z[{n}]" for n in range(count)]
        sources = {"a.py": "\n".join(lines).encode()}
        works = tuple(pairs.works_of([sources, sources]))
        weights = pairs.shared(index := pairs.index_of([works]), pairs.ranked(index, 2)[0])
        done = itertools.count()

        def trace(frame, event, argument):
            frame.f_trace_opcodes = True
            next(done)
            return trace

        sys.settrace(trace)
        try:
            places = similarity_report.places(works, (sources, sources), weights)
        finally:
            sys.settrace(None)
        assert min(count, similarity_report.MAX_PLACES) == len(places)
        return next(done)

    assert operations(480) < 6 * operations(120)


def test_a_page_has_no_more_lines_than_a_person_reads(monkeypatch):
    """At least the definitions that are most alike are shown."""
    monkeypatch.setattr(similarity_report, "MAX_LINES_OF_PAGE", 10)
    sources = CLASS[3], CLASS[3]
    works = tuple(pairs.works_of(sources))
    index = pairs.index_of([works])
    weights = pairs.shared(index, pairs.ranked(index, 2)[0])
    assert 1 == len(similarity_report.places(works, sources, weights))


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize(("width", "scheme"), every(2, [(1400, "light"), (390, "dark")]))
def test_pages_are_accessible_and_hostile_sources_are_text(page, tmp_path, width, scheme):
    """Untrusted names and lines never become elements or change the text direction."""
    lines = "\n".join(f"y{n} = f({n} * x + 3)  # {t}" for n, t in enumerate(HOSTILE))
    one = {"assignment/<b>m.py": lines.encode("utf-8", "replace"), **CLASS[0]}
    works = tuple(pairs.works_of([one, one]))
    index = pairs.index_of([works])
    (pair,) = pairs.ranked(index, 2)
    names = ["<b>" + HOSTILE[5], "\u202eb"]
    text = similarity_report.side_by_side(pair, names, works, (one, one), pairs.shared(index, pair))
    path = tmp_path / "pair.html"
    path.write_text(text, encoding="utf-8", errors="replace")
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.goto(path.as_uri())
    assert [] == page.seen
    assert serious(page) == []
    assert 0 == page.locator("main script, main img, main b").count()
    assert 2 <= page.locator("section").count()
    assert page.locator(".alike").count() > 50
    assert page.evaluate("document.documentElement.scrollWidth") <= width
