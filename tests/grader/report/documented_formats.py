"""Files of Gradescope and Classroom 50, after their documentation.

They lack what the grader never writes, and are written from the documented fields, because some of
the published schemas have another licence. `msgspec.convert` refuses a file that is not like them.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

# No control character but the line end, and no character that reorders text.
UNSAFE = r"\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff"
Text = Annotated[str, Meta(pattern=rf"^[^{UNSAFE}]*\Z")]
Name = Annotated[str, Meta(pattern=rf"^[^{UNSAFE}]+\Z")]
Points = Annotated[float, Meta(ge=0)]
Visibility = Literal["hidden", "after_due_date", "after_published", "visible"]


class _Known(Struct, forbid_unknown_fields=True):
    """A part of a file in which no other field may be."""


class GradescopeTest(_Known):
    max_score: Points
    name: Name
    number: Annotated[str, Meta(pattern=r"^[1-9][0-9]*\.[1-9][0-9]*\Z")]
    output: Text
    output_format: Literal["text"]
    score: Points | UnsetType = UNSET
    status: Literal["passed", "failed"] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.score is UNSET) != (self.status is UNSET):
            raise ValueError("a score has a status, and a status a score")


class Leader(_Known):
    name: Name
    value: float
    order: Literal["asc", "desc"]


class Gradescope(_Known):
    """The results.json of an autograder."""

    score: Points | UnsetType = UNSET
    execution_time: Points | UnsetType = UNSET
    output: Text | UnsetType = UNSET
    output_format: Literal["text"] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    stdout_visibility: Visibility | UnsetType = UNSET
    extra_data: dict[str, Any] | UnsetType = UNSET
    leaderboard: list[Leader] | UnsetType = UNSET
    tests: Annotated[list[GradescopeTest], Meta(min_length=1)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.tests is not UNSET and self.score is UNSET:
            raise ValueError("tests need a score")


Words = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+\Z")]
Whole = Annotated[int, Meta(ge=0)]
ShortName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{1,99}\Z")]
INSTANT = r"^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ\Z"


class _Scored(Struct):
    score: Whole
    most: Whole = field(name="max-score")

    def __post_init__(self) -> None:
        if self.score > self.most:
            raise ValueError("a score is at most its maximum")


class ClassroomTest(_Scored):
    name: Words = field(name="test-name")
    passed: bool
    message: Words


class ClassroomRecord(_Scored):
    """A submission in Classroom 50, in a scores.json or, with its assignment, a result.json."""

    schema: Literal["classroom50/result/v1"]
    classroom: Words
    assignment_type: Literal["individual", "group"]
    owner: Words
    submission: Annotated[str, Meta(pattern="^submit/")]
    commit: Words
    release: Words
    review: Words
    datetime: Annotated[str, Meta(pattern=INSTANT)]
    tests: list[ClassroomTest]


class ClassroomResult(ClassroomRecord, forbid_unknown_fields=True):
    assignment: Words


class ClassroomEntry(Struct):
    owner: Words
    submissions: Annotated[list[ClassroomRecord], Meta(min_length=1)]
    override: bool | UnsetType = UNSET


class ClassroomBucket(_Known):
    type: Literal["individual", "group"]
    entries: list[ClassroomEntry]

    def __post_init__(self) -> None:
        if len({entry.owner.casefold() for entry in self.entries}) < len(self.entries):
            raise ValueError("an owner occurs once")


class ClassroomScores(_Known):
    schema: Literal["classroom50/scores/v1"]
    assignments: dict[ShortName, ClassroomBucket]
