"""Find submissions of a class that are suspiciously alike, for a person to compare."""
