"""What a stub says: its sentences, and the known mistakes that contradict them."""

import msgspec
import pytest

from grader.course import courses
from grader.proof import sentences
from grader.solutions import mistakes
from grader.solutions.mistakes import Mistake, Sentence

COURSE = courses.load()

SOURCE = '''
class Sizes:
    """The sizes."""

def total(x, times=1, *, half=False):
    """Add up all entries. An empty tensor gives 0.

    total = times · Σ x                 for any x

    Args:
        x: The entries. Any strides will do.
        times, half: Factors.

    Returns:
        The sum as a float.

    Raises:
        ValueError: `times` is 0.

    Example:
        Two ones give 2.

    Handout §1.1 · `python -m assignment check p`
    """

def count(tensors):
    return len(tensors)

class Double:
    """Twice x."""

    def forward(self, x):
        """Multiply."""
'''
PROBLEM = msgspec.structs.replace(
    COURSE.problem("linear"), functions=["Sizes", "total", "count", "Double"]
)


def test_the_sentences_of_docstrings():
    """Headings, examples and the last line are none; entries lose their names."""
    assert [
        ("Sizes", 1, "The sizes."),
        ("total", 1, "Add up all entries."),
        ("total", 2, "An empty tensor gives 0."),
        ("total", 3, "total = times · Σ x for any x"),
        ("total", 4, "The entries."),
        ("total", 5, "Any strides will do."),
        ("total", 6, "Factors."),
        ("total", 7, "The sum as a float."),
        ("total", 8, "`times` is 0."),
        ("Double", 1, "Twice x."),
        ("Double.forward", 1, "Multiply."),
    ] == [(s.of, s.number, s.text) for s in sentences.of(PROBLEM, SOURCE)]


def mistake(name, *contradicts):
    """A known mistake that contradicts these sentences."""
    return Mistake(problem="linear", name=name, says="", contradicts=contradicts, line=7)


def test_each_sentence_knows_the_mistakes_that_contradict_it():
    """Its digits follow from its text alone."""
    one, two = mistake("one", Sentence("total", 2)), mistake("two", Sentence("total", 2, "0000"))
    (said,) = [s for s in sentences.of(PROBLEM, SOURCE, [one, two]) if s.wrong]
    assert ("An empty tensor gives 0.", ("one", "two")) == (said.text, said.wrong)
    assert f"total 2 {said.digest}" == said.name
    moved = [s.digest for s in sentences.of(PROBLEM, "\n" + SOURCE) if s.text == said.text]
    assert moved == [said.digest]


def test_a_sentence_that_does_not_exist_or_has_changed_is_told():
    said = sentences.of(PROBLEM, SOURCE)
    second, third = (s for s in said if s.of == "total" and s.number in (2, 3))
    known = [
        mistake("one", Sentence("total", 9), Sentence("count", 1), Sentence("total", 2, "0000")),
        mistake("two", Sentence("total", 2, "0000"), Sentence("total", 2, second.digest)),
        mistake("three", Sentence("total", 2, third.digest), Sentence("Sizes", 1)),
    ]
    assert [
        "linear/wrong.edits:7: mistake one: contradicts total: expected one of its 8 sentences; "
        "got 9",
        "linear/wrong.edits:7: mistake one: contradicts count: expected one of Sizes, total, "
        "Double, Double.forward; got count",
        "total: the sentence 2 0000 has changed to “An empty tensor gives 0.”; where a mistake "
        f"still contradicts it, write `contradicts: {second.name}` (one, two)",
        "sentence 2 of total is number 3 now: grader validate --digests (three)",
    ] == list(sentences.complaints(said, known))


def test_digests_are_written_where_they_are_missing():
    """A sentence that has moved gets its number; one that has changed stays as it is."""
    said = sentences.of(PROBLEM, SOURCE)
    second, third = (s for s in said if s.of == "total" and s.number in (2, 3))
    text = (
        "[one] One.\ncontradicts: total 2, Sizes 1 0000,total 2 "
        f"{third.digest}, total 2 {second.digest}, count 1\n- contradicts: total 2\n"
    )
    assert text.replace("total 2, Sizes", f"{second.name}, Sizes").replace(
        f",total 2 {third.digest}", f", {third.name}"
    ) == sentences.with_digests(text, said)


@pytest.mark.parametrize("problem", COURSE.problems, ids=lambda problem: problem.id)
def test_the_mistakes_of_the_course_contradict_sentences_of_its_stubs(problem):
    """A sentence that has changed is told with the mistakes that named it."""
    known = mistakes.load(COURSE.hidden, problem.id)
    said = sentences.of(problem, COURSE.reference_of(problem), known)
    assert [] == list(sentences.complaints(said, known))
