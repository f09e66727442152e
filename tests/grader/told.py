"""What a student is told of a test, as lines of text: for assertions."""


def told(problem_id, test):
    """The problem, what of it and what happened; below that the facts."""
    head = test.head(problem_id) if problem_id else test.said
    return (
        "\n".join([head, *(f"  {fact.label:<9} {fact.text}" for fact in test.facts)])
        if test.what
        else ""
    )
