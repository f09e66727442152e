"""What a result says, in a form that a test can compare."""

import json


def told(problem_id, test):
    """The problem, the function and the message, followed by the facts."""
    if not test.what:
        return ""
    head = test.head(problem_id) if problem_id else test.said
    return "\n".join([head, *(f"  {fact.label:<9} {fact.text}" for fact in test.facts)])


def without_seconds(text):
    """A result as JSON with every duration set to 0."""
    tree = json.loads(text)
    tree["seconds"] = 0
    for entry in tree["problems"]:
        for test in entry["tests"]:
            test["seconds"] = 0
    return json.dumps(tree)
