"""The matrix of `grader validate`, for readers."""

from collections.abc import Iterator

from rich.table import Column, Table
from rich.text import Text

from grader.proof.result_matrix import Matrix
from grader.proof.trial_kinds import KINDS, Row
from grader.results.points import HARM
from kit.safe_text import counted, first

PROVE = ("known mistake proves", "known mistakes prove")


def table(matrix: Matrix) -> Table:
    """The matrix as a table for readers: one row per solution, with the tests that it fails.

    A solution whose outcome depends on the seed has several rows. Trials made by a rule appear only
    if they have a complaint.
    """
    shown = Table(Column("problem", no_wrap=True), box=None, padding=(0, 2, 0, 0))
    shown.add_column("what", no_wrap=True, overflow="ellipsis", max_width=60)
    shown.add_column("points", justify="right", no_wrap=True)
    shown.add_column("fails")
    seeds: dict[tuple[object, ...], list[Row]] = {}
    surprising = set(map(id, matrix.surprising()))
    for row in matrix.rows:
        outcome = (row.score, row.max_score, *row.failed, bool(row.complaint))
        seeds.setdefault((row.problem, row.kind, row.name, outcome), []).append(row)
    for row, *others in seeds.values():
        if row.kind not in ("reference", "stub", "wrong", "variant") and id(row) not in surprising:
            continue
        mark = Text("✗ ", style="bold red") if row.complaint else Text("✓ ", style="green")
        name = row.name if row.kind == row.name else f"{row.kind} {row.name}"
        name += f" ({1 + len(others)} seeds)" if others else ""
        fails = Text(first(row.failed, 2))
        shown.add_row(row.problem, mark + Text(name), f"{row.score:.2f}/{row.max_score:g}", fails)
    return shown


def prices(matrix: Matrix) -> str:
    """What hurts most in each problem, and what it costs: tests and known mistakes by harm.

    The class of a mistake is the worst class among the tests that it fails.
    """
    lines = []
    for problem, tests in matrix.tests.items():
        wrong = sorted(matrix.wrong_solutions(problem), key=lambda row: -row.price)
        for harm in [*HARM, ""]:
            here = {test: said.points for test, said in tests.items() if said.harm == harm}
            found = {row.name: row.price for row in wrong if matrix.harm_of(row) == harm}
            if here or found:
                total = f", {sum(here.values()):.2f} points" if harm else ""
                lines.append(f"{problem} · {harm or 'no class of harm'}{total}")
                lines += [
                    f"  {word}: {_priced(listed)}"
                    for word, listed in (("tests", here), ("mistakes", found))
                    if listed
                ]
    return "".join(f"{line}\n" for line in lines)


def _priced(listed: dict[str, float]) -> str:
    return ", ".join(f"{name} {points:.2f}" if points else name for name, points in listed.items())


def survivors(matrix: Matrix) -> str:
    """The mutants that no test notices, one a line."""
    return "".join(
        f"{problem}: no test notices {name}\n"
        for problem in matrix.tests
        for name in matrix.survivors(problem)
    )


def needless(matrix: Matrix) -> str:
    """The known mistakes that prove nothing, by problem."""
    found = {problem: matrix.needless(problem) for problem in matrix.tests}
    return "".join(
        f"{problem}: {counted(len(names), *PROVE)} nothing that others do not; "
        f"delete what students do not make: {', '.join(names)}\n"
        for problem, names in found.items()
        if names
    )


def summary(matrix: Matrix) -> str:
    """The counts, one line per kind, and what else there is to say."""
    of_kinds = [
        kind.line(rows)
        for name, kind in KINDS.items()
        if (rows := [row for row in matrix.rows if row.kind == name])
    ]
    parts = (_of_prices, _of_checks, _of_tests)
    return "\n".join([*of_kinds, *(line for part in parts for line in part(matrix))])


def _of_prices(matrix: Matrix) -> Iterator[str]:
    for row in matrix.dear():
        reason = row.reason or "no reason given"
        yield f"{row.problem} · wrong {row.name} costs {100 * row.share:.0f} %: {reason}"
    if told := [row for row in matrix.rows if row.kind == "wrong" and row.told is not None]:
        green = matrix.surprises()
        dearest = f", at most {green[0].price:.2f} points each" if green else ""
        yield (
            f"wrong solutions that fail a public test: {len(told) - len(green)} of {len(told)}; "
            f"the others lose points in hidden tests only{dearest}"
        )


def _of_checks(matrix: Matrix) -> Iterator[str]:
    for name, is_right in matrix.checked.items():
        yield f"{name}: {'' if is_right else 'not '}as required"
    if matrix.owed:
        need = counted(matrix.owed, "wrong solution needs", "wrong solutions need")
        yield f"not tried: {need} a CUDA device"
    if matrix.unread:
        number = counted(matrix.unread, "wrong solution is", "wrong solutions are")
        yield f"{number} `unread:` and ran in the sandbox only; no student is told of them"


def _of_tests(matrix: Matrix) -> Iterator[str]:
    if tests := sum(map(len, matrix.tests.values())):
        alone = [names for problem in matrix.tests for names in matrix.alone(problem).values()]
        sole = sum(map(bool, alone))
        yield f"{tests} hidden tests, {sole} of them the only one to catch some wrong solution"
        if needless := sum(len(matrix.needless(problem)) for problem in matrix.tests):
            yield f"{counted(needless, *PROVE)} nothing that others do not"


def as_markdown(matrix: Matrix) -> str:
    """The whole matrix as Markdown, for readers.

    There is one table per problem, with what each test catches alone and in total.
    """
    parts = ["# What each hidden test catches", summary(matrix).replace("\n", "  \n")]
    for problem, tests in matrix.tests.items():
        alone = matrix.alone(problem)
        wrong = matrix.wrong_solutions(problem)
        parts.append(
            f"## {problem}: {counted(len(tests), 'test')}, {counted(len(wrong), 'wrong solution')}"
        )
        parts.append(
            "| test | catches | alone | why it stays |\n|---|---|---|---|\n"
            + "\n".join(
                f"| {test} | {sum(test in row.failed for row in wrong)} | {', '.join(alone[test])} "
                f"| {tests[test].stays} |"
                for test in tests
            )
        )
        if survivors := matrix.survivors(problem):
            names = "\n".join(f"- `{name}`" for name in survivors)
            parts.append(f"Mutants that no test notices:\n\n{names}")
    if complaints := matrix.complaints():
        parts.append("## Complaints\n\n" + "\n".join(f"- {complaint}" for complaint in complaints))
    return "\n\n".join(parts) + "\n"
