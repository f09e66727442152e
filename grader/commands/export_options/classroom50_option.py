"""The files for Classroom 50."""

from datetime import UTC, datetime

from grader.base import files
from grader.base.errors import UsageError
from grader.base.output_paths import Writes
from grader.classroom import classroom50_scores, gradebook
from grader.classroom.class_records import Standing
from grader.classroom.standings import Class
from grader.commands.report_options import Export, Paths, reported
from grader.course.removable.classroom50_rules import Classroom50Rules
from grader.report.report_contents import Reported


def _write(whole: Class, found: list[Standing], paths: Paths) -> list[str]:
    """Write the scores.json, and a result.json for each student who has a grade."""
    scores, read, results = paths.values()
    if read and not scores:
        raise UsageError("export: --classroom50-scores needs --classroom50, the file to write")
    if not scores and not results:
        return []
    place = whole.rules.of(Classroom50Rules).classroom50
    if place is None:
        raise UsageError(
            "export: the policy does not say which assignment this is in Classroom 50: expected "
            "organization, classroom and assignment in [policy.classroom50]"
        )

    def result_of(one: Standing) -> Reported | None:
        result = whole.result(one)
        return reported(whole.course, whole.rules, result, one) if result else None

    made = classroom50_scores.overrides(
        found, place, result_of, classroom50_scores.read(read), datetime.now(UTC)
    )
    if scores:
        files.write(scores, classroom50_scores.text(made.scores).encode("utf-8", "replace"))
    if results:
        files.make_folder(results)
        for student, content in made.records.items():
            name = f"{gradebook.file_name(student)}.json"
            files.write(results / name, classroom50_scores.text(content).encode())
    return made.notes


OPTION = Export(
    {
        "classroom50": ("A scores.json with overrides for Classroom 50.", "FILE", Writes()),
        "classroom50-scores": (
            "The scores.json that Classroom 50 collected: add the overrides to it.",
            "FILE",
            None,
        ),
        "classroom50-results": ("A result.json for each student.", "DIR", Writes("json")),
    },
    _write,
)
