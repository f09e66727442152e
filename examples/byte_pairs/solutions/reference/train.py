"""Chapter 1.2: learn which pairs of bytes to merge."""

from collections import Counter


def learn_merges(counts: dict[str, int], number: int) -> list[tuple[bytes, bytes]]:
    """The first `number` merges of byte-pair encoding, in their order.

    Each step merges the pair of neighbouring tokens that occurs most often inside the pretokens;
    of several such pairs, the greatest one as a tuple of bytes. At first, each byte of the UTF-8
    text is a token. If no pair is left, the list is shorter.

    Args:
        counts: How often each pretoken occurs.
        number: The most merges.

    Example:
        {"aab": 2, "ab": 1}, 1 gives [(b"a", b"b")], which occurs 3 times.

    Handout §1.2 · `python -m assignment check train`
    """
    # BEGIN SOLUTION(train)
    words = {tuple(bytes([b]) for b in word.encode()): count for word, count in counts.items()}
    merges: list[tuple[bytes, bytes]] = []
    while len(merges) < number:
        pairs: Counter[tuple[bytes, bytes]] = Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = {_merged(word, best): count for word, count in words.items()}
    return merges
    # END SOLUTION


# BEGIN SOLUTION(train)
def _merged(word: tuple[bytes, ...], pair: tuple[bytes, bytes]) -> tuple[bytes, ...]:
    out: list[bytes] = []
    i = 0
    while i < len(word):
        if word[i : i + 2] == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)
# END SOLUTION
