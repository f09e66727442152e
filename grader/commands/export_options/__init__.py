"""Options of `grader export`, one per file: `OPTION` describes it. Without its file it is gone."""
