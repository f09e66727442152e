"""The commands that say what a class's results mean; they join those of class_commands.py."""

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from grader import files
from grader.class_commands import Book, Rules, course_and_rules
from grader.class_commands import app as app
from grader.classroom import gradebook
from grader.classroom.standings import Class
from grader.commands import Folder
from grader.errors import UsageError

# grader.analysis imports numpy and the libraries for pages, so only these commands import it.


@app.command()
def page(
    book: Book,
    out: Annotated[Path, typer.Argument(metavar="OUT.html", help="The page to write.")],
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Leave names out, to show the page in class.")
    ] = False,
    reports: Annotated[
        Path | None,
        typer.Option(
            "--reports",
            metavar="DIR",
            help="Link each student to the page that `grader export --html DIR` wrote.",
        ),
    ] = None,
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Write a page about the class: who needs a person, what to reteach, mistakes, tests."""
    if anonymous and reports:
        raise UsageError("page: --reports has names; leave it or --anonymous out")
    if reports and not reports.is_dir():
        raise UsageError(f"--reports {reports}: expected the folder that `export --html` wrote")
    files.check_apart([out], kept=[book])
    course, rules = course_and_rules(course_folder, rules_file)
    from grader.analysis import page as class_page
    from grader.analysis.survey import Member, survey

    def link(member: Member) -> str:
        if reports is None:
            return ""
        path = reports / f"{gradebook.file_name(member.standing.student.id)}.html"
        return quote(os.path.relpath(path, out.parent)) if path.is_file() else ""

    with gradebook.reading(book) as opened:
        whole = Class(opened, course, rules)
        found = survey(whole, names=not anonymous)
        title = whole.rules.title
    text = class_page.render(found, title=title, with_names=not anonymous, link=link)
    files.write(out, text.encode("utf-8", "replace"))
    files.say(
        f"wrote {out}: {len(found.members)} students, {len(found.tests)} tests\n", needed=False
    )


@app.command()
def mistakes(
    book: Book,
    top: Annotated[
        int, typer.Option("--top", min=1, help="How many mistakes and tests to show.")
    ] = 15,
    rules_file: Rules = None,
    course_folder: Folder = None,
) -> None:
    """Say what to talk about tomorrow: the hardest problems, the commonest mistakes, odd tests."""
    course, rules = course_and_rules(course_folder, rules_file)
    from grader.analysis import texts
    from grader.analysis.survey import survey

    with gradebook.reading(book) as opened:
        found = survey(Class(opened, course, rules))
    files.say(texts.mistakes(found, top=top))
