"""pretokens: compared with a search that knows nothing of special tokens."""

from collections import Counter

import pytest
import regex

from kit import expect
from tests.probes import corpus

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def counts(*parts):
    """The counts of these parts of a text together."""
    return dict(Counter(piece for part in parts for piece in regex.findall(GPT2, part)))


# Stays: the whole pattern on a text in several scripts.
@pytest.mark.harm("trains worse")
def test_a_corpus_in_several_scripts(student):
    """Words, numbers and signs keep the blank before them; special tokens separate texts."""
    text = corpus.CORPUS.read_text(encoding="utf-8")
    got = student.run(corpus.count_corpus, special_tokens=["<|end|>"])
    expect.value(got, counts(*text.split("<|end|>")), of="count_pretokens", hint="GPT-2's pattern")


# Stays: without special tokens, the pattern alone decides.
@pytest.mark.harm("wrong number")
def test_without_special_tokens(student):
    """If there are no special tokens, the whole text is searched; an empty text has no pretoken."""
    for text in ("low  lower<|end|> it's 42\n\n", ""):
        got = student.pretokens.count_pretokens(text, [])
        expect.value(got, counts(text), of="count_pretokens", inputs=repr(text))


@pytest.mark.harm("wrong number")
def test_one_special_token_begins_with_another(student):
    """Where both would fit, the longer one is cut out."""
    got = student.pretokens.count_pretokens("a<|e|>b<|e|><|e|>c", ["<|e|>", "<|e|><|e|>"])
    expect.value(got, {"a": 1, "b": 1, "c": 1}, of="count_pretokens", hint="the longest one first")
    got = student.pretokens.count_pretokens("a++b+c", ["+", "++"])
    expect.value(got, {"a": 1, "b": 1, "c": 1}, of="count_pretokens", hint="is + a special token?")
    got = student.pretokens.count_pretokens("a#b##c", ["#", "##b"])
    expect.value(got, {"a": 1, "b": 1, "c": 1}, of="count_pretokens", hint="only what is there")
    got = student.pretokens.count_pretokens("x..y", [".", "..y"])
    expect.value(got, {"x": 1}, of="count_pretokens", hint="the longest one first")


@pytest.mark.harm("wrong number")
@pytest.mark.parametrize("processes", [1, 3])
def test_several_texts_at_once(student, processes):
    """The counts of all texts are added up, however many processes there are."""
    texts = ["low low", " low", "", "lower low"]
    got = student.pretokens.count_in_parallel(texts, processes)
    expect.value(got, counts(*texts), of="count_in_parallel", hint="each text counts")
