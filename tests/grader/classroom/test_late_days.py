"""Late days of a whole course, from one assignment's gradebook to the next."""

import zipfile

import pytest

POLICY = """\
[policy]
title = "{title}"
per_cent_a_day = 10
late_days = 3
late_days_file = "late.csv"
[policy.deadlines]
default = 2026-10-01T12:00:00Z
"""
# Days that have begun when the zip is handed in, in the first assignment and in the second one.
DAYS = {"ada": (2, 2), "bob": (0, 1), "cyd": (5, 1)}


@pytest.mark.slow
def test_days_used_in_one_assignment_are_missing_in_the_next(grader, root, tmp_path):
    """Of three free days ada uses two and one, cyd all at once; a second export changes nothing."""
    tiny = root / "examples" / "tiny_course"

    def run(*words):
        done = grader(*map(str, words), "--course", str(tiny))
        assert done.returncode == 0, done.stderr
        return done.stdout

    for place, title in enumerate(("hw1", "hw2")):
        folder = tmp_path / title
        folder.mkdir()
        for name, days in DAYS.items():
            at = f"2026-10-{1 + days[place]:02}T11-00-00Z"
            with zipfile.ZipFile(folder / f"{name}@{at}.zip", "w") as archive:
                archive.writestr("assignment/activations.py", f"# {name}\n")
        rules = tmp_path / f"{title}.toml"
        rules.write_text(POLICY.format(title=title))
        book = tmp_path / f"{title}.sqlite"
        run("batch", folder, "--gradebook", book, "--policy", rules, "--jobs", 1)
        for _ in range(2):
            run("export", book, "--late-days", tmp_path / "late.csv", "--csv", tmp_path / "c.csv")
            text = (tmp_path / "late.csv").read_text().splitlines()
        if title == "hw1":
            assert text == ["student,assignment,days", "ada,hw1,2", "cyd,hw1,3"]
    assert text == [
        "student,assignment,days",
        *("ada,hw1,2", "ada,hw2,1", "bob,hw2,1", "cyd,hw1,3"),
    ]
    rows = [line.split(",") for line in (tmp_path / "c.csv").read_text().splitlines()]
    columns = rows[0].index("days_late"), rows[0].index("late_days_used")
    late = {row[0]: [row[column] for column in columns] for row in rows[1:]}
    assert late == {"ada": ["1", "1"], "bob": ["0", "1"], "cyd": ["1", "0"]}
