"""Downloads that can each be removed by deleting its file; `DOWNLOAD` says what it is."""
