"""Commands that can each be removed by deleting its file."""
