"""Options of `grader export`, one per file: `OPTION` describes it, and without the file it is gone."""
