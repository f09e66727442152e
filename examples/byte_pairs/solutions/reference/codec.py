"""Chapter 1.2: encode and decode with learned merges."""


def encode(word: str, merges: list[tuple[bytes, bytes]]) -> list[int]:
    """The ids of the tokens of one pretoken.

    The bytes of its UTF-8 text are the first tokens. Then the merges are applied in their order,
    each wherever its pair occurs, from left to right. A byte has itself as its id; the token that
    the i-th merge makes has the id 256 + i, where i counts from 0.

    Example:
        "aab" with [(b"a", b"b")] gives [97, 256].

    Handout §1.2 · `python -m assignment check codec`
    """
    # BEGIN SOLUTION(codec)
    tokens = [bytes([b]) for b in word.encode()]
    ids = list(word.encode())
    for number, pair in enumerate(merges):
        i = 0
        while i < len(tokens) - 1:
            if (tokens[i], tokens[i + 1]) == pair:
                tokens[i : i + 2] = [pair[0] + pair[1]]
                ids[i : i + 2] = [256 + number]
            i += 1
    return ids
    # END SOLUTION


def decode(ids: list[int], merges: list[tuple[bytes, bytes]]) -> str:
    """The text of these ids; bytes that are not UTF-8 become U+FFFD.

    Example:
        [97, 256] with [(b"a", b"b")] gives "aab".

    Handout §1.2 · `python -m assignment check codec`
    """
    # BEGIN SOLUTION(codec)
    tokens = [bytes([b]) for b in range(256)] + [first + second for first, second in merges]
    return b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace")
    # END SOLUTION
