"""One platform per file: `PLATFORM` describes it, and without the file it is gone."""
