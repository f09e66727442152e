"""Platforms that can each be removed by deleting its file; `PLATFORM` says what it is."""
