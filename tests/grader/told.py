"""What a student is told of a test, as lines of text: for assertions."""


def told(problem_id, test):
    """The problem, what of it and what happened; below that the facts."""
    head = test.said if not problem_id else f"{problem_id} · {test.said}" if test.about else f"{problem_id}: {test.said}"
    return "\n".join([head, *(f"  {fact.label:<9} {fact.text}" for fact in test.facts)]) if test.what else ""
