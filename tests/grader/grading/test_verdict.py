"""What a student reads of an exception."""

import pytest

from grader.base.errors import raised
from grader.grading.verdict import plain, verdict_on

EINOPS = (
    ' Error while processing rearrange-reduction pattern "... s (h d) -> ... h s d".\n'
    " Input tensor shape: torch.Size([2, 10]). Additional info: {'h': 3}.\n"
    " Shape mismatch, can't divide axis of length 10 in chunks of 3"
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            EINOPS,
            'Error while processing rearrange-reduction pattern "... s (h d) -> ... h s d". '
            "Shape mismatch, can't divide axis of length 10 in chunks of 3",
        ),
        (
            'Error(s) in loading state_dict for Linear:\n\tMissing key(s): "weight". \n\tsize …',
            'Error(s) in loading state_dict for Linear: Missing key(s): "weight".',
        ),
        (
            "backend='inductor' raised:\nInvalidCxxCompiler: No working C++ compiler found\n\n"
            "Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace",
            "backend='inductor' raised: InvalidCxxCompiler: No working C++ compiler found",
        ),
        ("could not save\n(from TypeError: x)", "could not save (from TypeError: x)"),
        ("AttributeError: x\n\nfrom user code:\n  line 2", "AttributeError: x"),
        ("One sentence. And another one.", "One sentence. And another one."),
        ("One sentence. " + 400 * "x" + ". Y", "One sentence. " + 400 * "x" + "."),
        ("", ""),
    ],
)
def test_the_cause_in_a_long_exception_survives(text, told):
    """Values and advice between the first sentence and the cause are left out."""
    assert plain(text) == told


@pytest.mark.parametrize(
    ("kind", "text", "labels"),
    [
        ("ModuleNotFoundError", "No module named 'data'", ["at", "may import", "grader has"]),
        ("ImportError", "cannot import name 'override' from 'typing'", ["at", "grader has"]),
        ("AttributeError", "module 'itertools' has no attribute 'batched'", ["at", "grader has"]),
        ("AttributeError", "module 'assignment.linear' has no attribute 'MLP'", ["at"]),
        ("AttributeError", "'list' object has no attribute 'shape'", ["at"]),
    ],
)
def test_what_a_newer_python_has_is_told_with_the_graders_python(kind, text, labels):
    fault = raised([kind, "Exception"], kind, text, "assignment/linear.py:3")
    verdict = verdict_on(fault, test="test_it", rule="", asked="", packages=["torch>=2.6"])
    assert [fact.label for fact in verdict.facts] == labels
    if "may import" in labels:
        (may,) = (fact.text for fact in verdict.facts if fact.label == "may import")
        assert may.startswith("the standard library, torch; its own modules as in `from assignment")
