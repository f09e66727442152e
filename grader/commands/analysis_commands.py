"""The commands that analyse a class's results."""

from pathlib import Path
from typing import Annotated

from grader.base import files
from grader.base.output_paths import Writes
from grader.commands.class_commands import Book, RulesOption, class_of
from grader.commands.shared_options import Folder, app, argument, option
from kit.safe_text import counted

# grader.analysis imports the libraries for pages, so only these commands import it.


@app.command()
def page(
    book: Book,
    out: Annotated[Path, argument("OUT.html"), Writes()],
    anonymous: Annotated[bool, option("--anonymous")] = False,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Write a page about the class: who needs attention, what to reteach, mistakes, tests.

    Args:
        out: The page to write.
        anonymous: Leave out names, to show the page in class.
    """
    from grader.analysis import class_page
    from grader.analysis.class_statistics import survey

    with class_of(book, course_folder, rules_file) as whole:
        found = survey(whole, names=not anonymous)
        title = whole.rules.title
    text = class_page.render(found, title=title, with_names=not anonymous)
    files.write(out, text.encode("utf-8", "replace"))
    students, tests = counted(len(found.members), "student"), counted(len(found.tests), "test")
    files.say(f"wrote {out}: {students}, {tests}\n", needed=False)


@app.command()
def mistakes(
    book: Book,
    top: Annotated[int, option("--top", min=1)] = 15,
    draft: Annotated[Path | None, option("--draft DIR"), Writes("edits")] = None,
    rules_file: RulesOption = None,
    course_folder: Folder = None,
) -> None:
    """Show what to discuss in class: hardest problems, most common mistakes, suspicious tests.

    Args:
        top: How many mistakes and tests to show.
        draft: Write drafts of known mistakes, from failures that no known mistake explains.
    """
    from grader.analysis import class_terminal, mistake_drafts
    from grader.analysis.class_statistics import survey

    with class_of(book, course_folder, rules_file) as whole:
        groups = mistake_drafts.groups(whole, top=top) if draft else []
        found = None if draft else survey(whole)
    if found:
        files.say(class_terminal.mistakes(found, top=top))
        return
    files.say(class_terminal.groups(groups))
    usable = [group for group in groups if group.programs]
    wrote: list[str] = []
    with files.together():
        for problem in whole.course.problems:
            if of_problem := [group for group in usable if group.problem == problem]:
                assert draft
                files.make_folder(draft)
                path = draft / f"{problem.id}.edits"
                files.write(path, mistake_drafts.written(problem, of_problem).encode())
                wrote.append(f"wrote {path}\n")
    files.say("".join(wrote), needed=False)
