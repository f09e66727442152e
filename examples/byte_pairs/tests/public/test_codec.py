"""codec: the handout's example."""

from kit import expect


def test_codec_of_the_worked_example(student):
    """There and back."""
    merges = [(b"a", b"b")]
    expect.value(student.codec.encode("aab", merges), [97, 256], of="encode", inputs="aab")
    expect.value(student.codec.decode([97, 256], merges), "aab", of="decode", inputs="97, 256")
