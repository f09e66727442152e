"""The text that a student sees for a test, as lines that a test can compare."""


def told(problem_id, test):
    """The problem, the function and the message, followed by the facts."""
    head = test.head(problem_id) if problem_id else test.said
    return (
        "\n".join([head, *(f"  {fact.label:<9} {fact.text}" for fact in test.facts)])
        if test.what
        else ""
    )
