"""Options of `grader export`, one per file, which `OPTION` describes. Without its file it is gone."""
