"""The table [policy.classroom50] of policy.toml."""

from typing import Annotated, Any, ClassVar

import msgspec

from grader.course.late_policy import PlatformRules

# Names on GitHub and in Classroom 50, as parts of addresses.
Organization = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}\Z")]
ShortName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9-]{1,99}\Z")]


class Classroom50(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The assignment in Classroom 50."""

    organization: Organization  # the organization on GitHub that has the students' repositories
    classroom: ShortName  # the short name of the classroom
    assignment: ShortName  # the short name of the assignment


class Classroom50Rules(PlatformRules, frozen=True):
    """The rules for Classroom 50."""

    EXPECTED: ClassVar[dict[Any, str]] = {
        Organization: "the name of an organization on GitHub",
        ShortName: "a short name of lower-case letters, digits and hyphens",
        Classroom50 | None: "a table with organization, classroom and assignment",
    }

    classroom50: Classroom50 | None = None  # the assignment there; None if unknown


RULES = Classroom50Rules
