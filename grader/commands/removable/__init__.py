"""One command per file; without the file, it is gone."""
