"""Probes that read the corpus, which lies beside them."""

from pathlib import Path

CORPUS = Path(__file__).parent / "data" / "corpus.txt"


def count_corpus(student, special_tokens: list[str]) -> dict[str, int]:
    """The counts of the corpus."""
    return student.pretokens.count_pretokens(CORPUS.read_text(encoding="utf-8"), special_tokens)
