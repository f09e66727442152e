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
    # TODO(codec): about 10 lines.
    raise NotImplementedError("codec: see handout §1.2")


def decode(ids: list[int], merges: list[tuple[bytes, bytes]]) -> str:
    """The text of these ids; bytes that are not UTF-8 become U+FFFD.

    Example:
        [97, 256] with [(b"a", b"b")] gives "aab".

    Handout §1.2 · `python -m assignment check codec`
    """
    # TODO(codec): about 2 lines.
    raise NotImplementedError("codec: see handout §1.2")
