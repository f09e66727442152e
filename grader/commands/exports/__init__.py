"""One export per file: `EXPORT` describes it, and without the file it is gone."""
