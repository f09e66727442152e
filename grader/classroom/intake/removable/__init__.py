"""One download format per file: `DOWNLOAD` describes it, and without the file it is gone."""
