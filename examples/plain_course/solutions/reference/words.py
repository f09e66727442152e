"""Two functions of words."""


def count_words(text: str) -> dict[str, int]:
    """How often each word occurs; words are separated by blanks, and case does not matter.

    Example:
        "A b a" has "a" twice and "b" once.
    """
    # BEGIN SOLUTION(count_words)
    counts: dict[str, int] = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts
    # END SOLUTION


def mean_length(words: list[str]) -> float:
    """The mean number of letters of one or more words.

    Example:
        "a" and "bcd" have a mean of 2.
    """
    # BEGIN SOLUTION(mean_length)
    return sum(map(len, words)) / len(words)
    # END SOLUTION
