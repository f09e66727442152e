"""Which submissions of a class resemble each other more than they should: a signal for a person."""
