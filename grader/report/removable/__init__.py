"""One report format per file: `FORMAT` describes it, and without the file it is gone."""
