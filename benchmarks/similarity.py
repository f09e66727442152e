"""How well and how fast `grader similar` finds copies, in a class whose copies are all known.

    python benchmarks/similarity.py [--students N] [--json FILE]

For each problem, an independent student takes one of the course's solutions (the reference, a
variant, or a solution from tests/grader/strangers) and rewrites it at random in small ways.
A copier takes another student's files and hides the copy by renaming, reordering, reformatting, all
three together, or copying only half of the files. The benchmark prints the recall for each kind,
the precision, and the seconds for the whole class.
"""

import argparse
import ast
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import single

from grader.course import courses
from grader.course.courses import Course
from grader.similarity import pairs
from grader.solutions import fragments
from tests.grader import strangers

COPIERS = 10  # copiers of each kind
SWAPPED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq}
Sources = dict[str, str]


class Rewritten(ast.NodeTransformer):
    """Rewrites a program at random in small ways."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Call | ast.BinOp) or self.rng.random() < 0.5:
            return node
        name = self.rng.choice(["out", "result", "y", "value"])
        stored, loaded = ast.Name(name, ast.Store()), ast.Name(name, ast.Load())
        return [ast.Assign([stored], node.value, lineno=0), ast.Return(loaded)]

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        swapped = SWAPPED.get(type(node.ops[0]))
        if len(node.ops) > 1 or swapped is None or self.rng.random() < 0.5:
            return node
        return ast.Compare(node.comparators[0], [swapped()], [node.left])

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name) or self.rng.random() < 0.5:
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.Assign([node.target], value, lineno=0)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mult | ast.Add) or self.rng.random() < 0.5:
            return node
        return ast.BinOp(node.right, node.op, node.left)


class Renamed(ast.NodeTransformer):
    """Renames the local variables of each function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and
                  isinstance(n.ctx, ast.Store)}  # fmt: skip
        names = {name: f"my_{place}" for place, name in enumerate(sorted(stored))}
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and n.id in names:
                n.id = names[n.id]
        return node


def independent(course: Course, choices: dict[str, list[str | None]], seed: int) -> Sources:
    """The submission of a student who works alone."""
    rng = random.Random(seed)
    found: Sources = {}
    for problem in course.problems:
        text = found.get(problem.path, course.reference_of(problem))
        source = rng.choice(choices[problem.id])
        if source is not None:
            text = fragments.replaced(text, source)
        found[problem.path] = text
    return {path: unparsed(Rewritten(rng).visit(ast.parse(t))) for path, t in found.items()}


def unparsed(tree: ast.AST) -> str:
    """The source of a syntax tree."""
    return ast.unparse(ast.fix_missing_locations(tree))


def choices_of(course: Course) -> dict[str, list[str | None]]:
    """For each problem, its solutions; None stands for the reference."""
    found: dict[str, list[str | None]] = {}
    for problem in course.problems:
        written = [f.source for f in fragments.load(course.variants, problem.id)]
        if problem.id in strangers.PROBLEMS:
            written += [stranger.source for stranger in strangers.load(problem.id)]
        reference = course.reference_of(problem)
        usable = []
        for source in written:
            try:
                ast.parse(fragments.replaced(reference, source))
            except (SyntaxError, ValueError, KeyError):
                continue
            usable.append(source)
        found[problem.id] = [None, *usable]
    return found


def renamed(sources: Sources, rng: random.Random) -> Sources:
    return {path: unparsed(Renamed().visit(ast.parse(text))) for path, text in sources.items()}


def reordered(sources: Sources, rng: random.Random) -> Sources:
    found = {}
    for path, text in sources.items():
        tree = ast.parse(text)
        movable = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        others = [n for n in tree.body if n not in movable]
        rng.shuffle(movable)
        tree.body = [*others, *movable]
        found[path] = unparsed(tree)
    return found


def reformatted(sources: Sources, rng: random.Random) -> Sources:
    found = {}
    for path, text in sources.items():
        lines = [line.replace("    ", "\t") for line in text.splitlines()]
        found[path] = "\n".join(f"{line}  # {rng.random()}" if line.endswith(":") else line
                                for line in lines).replace("(", "( ").replace("'", '"')  # fmt: skip
    return found


def hidden(sources: Sources, rng: random.Random) -> Sources:
    return reformatted(reordered(renamed(sources, rng), rng), rng)


KINDS: dict[str, Callable[[Sources, random.Random], Sources]] = {
    "renamed": renamed,
    "reordered": reordered,
    "reformatted": reformatted,
    "all three": hidden,
    "half of the files": renamed,
}


def made_class(course: Course, students: int) -> tuple[list[Sources], dict[tuple[int, int], str]]:
    """The submissions, and the kind of each copied pair."""
    choices = choices_of(course)
    alone = students - COPIERS * len(KINDS)
    works = [independent(course, choices, seed) for seed in range(alone)]
    copies = {}
    rng = random.Random(0)
    victims = rng.sample(range(alone), COPIERS * len(KINDS))
    for place, victim in enumerate(victims):
        kind = list(KINDS)[place % len(KINDS)]
        files = dict(works[victim])
        if kind == "half of the files":
            files = dict(rng.sample(sorted(files.items()), len(files) // 2))
        own = independent(course, choices, 10_000 + place)
        copies[victim, len(works)] = kind
        works.append(own | KINDS[kind](files, rng))
    return works, copies


def main() -> None:
    """Generate a class, look for copies, and print how many were found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=400)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    course = courses.load()
    works, copies = made_class(course, options.students)
    given = [path.read_text(encoding="utf-8") for path in sorted(course.assignment.glob("*.py"))]
    started = time.perf_counter()
    sources = [{path: text.encode() for path, text in work.items()} for work in works]
    read = pairs.works_of(sources, jobs=os.cpu_count() or 1)
    seconds_of_reading = time.perf_counter() - started
    every = pairs.ranked(read, given, threshold=0.05)
    seconds = time.perf_counter() - started
    overlaps = {(pair.one, pair.other): pair.overlap for pair in every}
    figures: dict[str, object] = {"environment": single.environment(), "students": len(works)}
    figures["seconds"] = round(seconds, 1)
    figures["of these, reading"] = round(seconds_of_reading, 1)
    for threshold in sorted({0.2, 0.25, 0.3, 0.4, 0.5, pairs.THRESHOLD}):
        found = {pair for pair, overlap in overlaps.items() if overlap >= threshold}
        name = f"threshold {threshold}{' (default)' if threshold == pairs.THRESHOLD else ''}"
        figures[name] = {
            "pairs": len(found),
            "precision": round(len(found & copies.keys()) / len(found), 3) if found else None,
            "recall": round(len(found & copies.keys()) / len(copies), 3),
            **{
                f"recall, {kind}": round(
                    sum(pair in found for pair in copies if copies[pair] == kind) / COPIERS, 2
                )
                for kind in KINDS
            },
        }
    independents = sorted(v for pair, v in overlaps.items() if pair not in copies)
    figures["largest overlap of an independent pair"] = round(independents[-1], 3)
    figures["smallest overlap of a copied pair"] = round(min(overlaps.get(p, 0) for p in copies), 3)
    for name, value in figures.items():
        print(f"{name:<45} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
