"""train: compared with a published example, and with the definition."""

import json
from collections import Counter
from pathlib import Path

import pytest

from kit import expect

PUBLISHED = json.loads((Path(__file__).with_name("merges.json")).read_text())


def pairs_of(words):
    """How often each pair of neighbours occurs."""
    found = Counter()
    for word, count in words:
        for i in range(len(word) - 1):
            found[word[i], word[i + 1]] += count
    return found


def check(student, counts, number):
    """Compare each merge with the definition, after the merges before it."""
    got = student.train.learn_merges(counts, number)
    expect.kind(got, list, of="learn_merges")
    words = [([bytes([b]) for b in word.encode()], count) for word, count in counts.items()]
    for place in range(number):
        pairs = pairs_of(words)
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        expect.that(place < len(got), "there are too few merges", of="learn_merges")
        hint = "the pair that occurs most often; of several, the greatest"
        expect.value(got[place], best, of="learn_merges", name=f"merge {place}", hint=hint)
        for word, _ in words:
            i = 0
            while i < len(word) - 1:
                if (word[i], word[i + 1]) == best:
                    word[i : i + 2] = [best[0] + best[1]]
                i += 1
    expect.that(len(got) <= number, "there are too many merges", of="learn_merges")


# Stays: this one compares with other people's result, the next one with the definition.
@pytest.mark.harm("trains worse")
def test_the_published_example(student):
    """Each step merges the most frequent pair; of several such pairs, the greatest."""
    right = [tuple(part.encode() for part in line.split()) for line in PUBLISHED["merges"]]
    got = student.train.learn_merges(PUBLISHED["counts"], 12)
    expect.value(got, right, of="learn_merges", hint="which of several pairs is merged?")


# Stays: the definition, step by step.
@pytest.mark.harm("wrong number")
def test_counts_decide(student, rng):
    """A pretoken that occurs ten times counts ten times, whatever the other pretokens are."""
    letters = "abc"
    for _ in range(3):
        words = {"".join(rng.choices(letters, k=rng.randint(2, 6))) for _ in range(8)}
        check(student, {word: rng.randint(1, 50) for word in sorted(words)}, 6)


@pytest.mark.harm("wrong number")
def test_characters_of_several_bytes(student):
    """Tokens begin as bytes."""
    check(student, {"日本": 3, " né": 2}, 5)


@pytest.mark.harm("crash")
def test_no_pair_is_left(student):
    """The list ends when every pretoken is one token; there may be none at all."""
    check(student, {"ab": 2, "c": 1}, 5)
    check(student, {}, 3)
