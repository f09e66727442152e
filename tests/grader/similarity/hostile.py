# ruff: noqa: E501, examples are one string each
"""Programs that are cheap to write and dear to read, each of about a given number of characters."""

from collections.abc import Callable

CALL = "    f()\n"


def times(part: str, characters: int) -> str:
    """A text of about this many characters that repeats its part."""
    return part * max(1, characters // len(part))


def numbered(part: str, characters: int) -> str:
    """The same, where each # is the number of the part."""
    return "".join(part.replace("#", str(n)) for n in range(max(1, characters // (len(part) + 4))))


def called(body: str, characters: int) -> str:
    """A function whose body takes half the text, and functions that call it in the other half."""
    return f"def f(x=0, y=0):\n{body}" + numbered("def g#():\n" + CALL * 40, characters // 2)


HOSTILE: dict[str, Callable[[int], str]] = {
    # one expression
    "brackets": lambda n: "x = " + "(" * 190 + times("y, ", n) + ")" * 190,
    "signs": lambda n: "x = " + times("-", n) + "1",
    "a sum": lambda n: "x = y" + times(" + y", n),
    "a sum of products": lambda n: "x = y" + times(" + y * z * a * b * c * d", n),
    "attributes": lambda n: "x = y" + times(".z", n),
    "calls of calls": lambda n: "x = y" + times("()", n),
    "items of items": lambda n: "x = y" + times("[0]", n),
    "a tuple": lambda n: "x = (" + times("0,", n) + ")",
    "a dict": lambda n: "x = {" + times("y:y,", n) + "}",
    "comparisons": lambda n: "x = y" + times("<y", n),
    "either": lambda n: "x = y" + times(" or y", n) + "\n",
    "formats in formats": lambda n: "x = " + times("f'{y} {y:{y}}' ", n),
    "comprehensions": lambda n: times("x = [[[y for y in z] for z in a] for a in b]\n", n),
    "clauses of a comprehension": lambda n: "x = [y" + times(" for y in x if y", n) + "]",
    "getattr in getattr": lambda n: "x = " + "getattr(" * 80 + "y" + ",'a')" * 80 + times(" + y", n),
    "a power": lambda n: "x = " + times("9 ** ", n) + "9",
    "a large product": lambda n: "x = " + times("99999 * ", n) + "1",
    "a number in hexadecimal": lambda n: "x = 0x" + times("f", n),
    "numbers of 4,000 digits": lambda n: times(f"x = {'9' * 4000}\n", n),
    "a long name": lambda n: f"x = {times('y', n)} + 1",
    "a text": lambda n: f"x = '{times('y', n)}'",
    # many statements
    "tiny functions": lambda n: numbered("def f#(): return x + #\n", n),
    "functions of one name": lambda n: times("def f(x): return f(x + 1)\n", n),
    "functions that call the one before": lambda n: "f0 = f1 = 0\n" + "".join(
        f"def f{k}(x): return f{k - 1}(x) + f{k - 1}(x)\n" for k in range(1, n // 45)),
    "methods": lambda n: "class A:\n" + times("  x\n", n // 2) + numbered("  def f#(self): self.y\n", n // 2),
    "assignments and conditions": lambda n: numbered("x# = y\n", n // 2) + times("if y: z\n", n // 2),
    "loops over many names": lambda n: numbered("x# = y\n", n // 2) + times("for a in b: a\n", n // 2),
    "functions that see many names": lambda n: numbered("x# = y\n", n // 2) + times("z = lambda: y\nz()\n", n // 2),
    "a variable with many values": lambda n: numbered("if y: x = #.5\n", n),
    "values tested again and again": lambda n: numbered("if y: x = #.5\n", n // 2) + times("x\n", n // 2),
    "many alternatives tested": lambda n: "x = y" + numbered(" or y#", n // 2) + "\n" + times("if x: 0\n", n // 2),
    "values that double": lambda n: "x = y + 1\n" + times("x = x * x + z[x]\n", n),
    "ifs in ifs": lambda n: "".join(f"{' ' * k}if y:\n" for k in range(95)) + " " * 95 + "x = (" + times("y,", n) + ")\n",
    "patterns": lambda n: "match x:\n case [" + times("_,", n) + "*y]: pass",
    "equal lines": lambda n: times("x = f(a * b + c)\n", n),
    "decorators": lambda n: times("@a\n", n) + "def f(): pass\n",
    "parameters": lambda n: "def f(" + numbered("a#,", n // 2) + "):\n pass\n" + times("f()\n", n // 2),
    # one long body that is read for each call
    "an annotation": lambda n: called(f"    i = 0\n    while i < n:\n        x: [{times('0,', n // 2)}]\n", n),
    "a called tuple": lambda n: called(f"    return ({times('x,', n // 2)})\n", n),
    "a called pattern": lambda n: called(f"    match x:\n        case [{times('_,', n // 2)}*y]: pass\n", n),
    "a called chain": lambda n: called(f"    return x{times('.y', n // 2)}\n", n),
    "a called attribute of a long name": lambda n: called(f"    return x.{times('y', n // 2)}\n", n),
    "a called function of a long name": lambda n: called(f"    return __{times('_', n // 2)}(x)\n", n),
    "a called getattr of bytes": lambda n: called(f"    return getattr(x, b'{times('y', n // 2)}')\n", n),
    "a called body of nothing": lambda n: called(times("    pass\n", n // 2), n),
    "a called dead branch": lambda n: called("    if False:\n" + times("        x\n", n // 2), n),
    "a called loop of counters": lambda n: called("    i = 0\n    while i < n:\n" + times("        pass\n", n // 2), n),
    "a called class": lambda n: called("    class A:\n" + numbered("        def f#(): 0\n", n // 2), n),
    "a called text": lambda n: called(f"    return '{times('y', n // 2)}'\n", n),
}  # fmt: skip
