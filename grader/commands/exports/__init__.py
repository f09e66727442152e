"""Exports for other programs, each removed by deleting its file; `EXPORT` says what it is."""
