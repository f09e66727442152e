"""Report formats that can each be removed by deleting its file; `FORMAT` says what it is."""
