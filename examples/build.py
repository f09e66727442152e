"""Build a typical submission, the stubs with what examples/sample/ fills in: build.py OUT.zip"""

import ast
import sys
import tomllib
from pathlib import Path

from kit.handing_in import zipped

HERE = Path(__file__).parent
STUBS = HERE.parent / "assignment"
NOTES = "I worked on this with the handout only.\n"


def build(target: Path) -> None:
    """Write the zip."""
    target.parent.mkdir(exist_ok=True)
    problems = tomllib.loads((STUBS / "problems.toml").read_text(encoding="utf-8"))["problem"]
    modules = {"__init__", *(problem["module"] for problem in problems)}
    files = {f"{name}.py": (STUBS / f"{name}.py").read_text(encoding="utf-8") for name in modules}
    for path in (HERE / "sample").glob("*.py"):
        files[path.name] = filled(files[path.name], path.read_text(encoding="utf-8"))
    submitted = {f"assignment/{name}": text for name, text in files.items()} | {"notes.txt": NOTES}
    target.write_bytes(zipped({name: text.encode() for name, text in submitted.items()}))


def filled(stub: str, written: str) -> str:
    """A stub with the bodies of the functions of the same names, and with the imports.

    Signatures and docstrings stay those of the stub.
    """
    lines, their_lines = stub.splitlines(), written.splitlines()
    ours, theirs = functions(ast.parse(stub)), functions(ast.parse(written))
    for name in sorted(theirs, key=lambda name: -ours[name].lineno):
        docstring, body = ours[name].body[0], theirs[name].body
        has_one = isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant)
        start = docstring.end_lineno if has_one else docstring.lineno - 1
        lines[start : ours[name].end_lineno] = their_lines[
            body[0].lineno - 1 : theirs[name].end_lineno
        ]
    imports = [node for node in ast.parse(written).body if isinstance(node, ast.Import)]
    first = next(n for n, line in enumerate(lines) if line.startswith("import torch"))
    lines[first:first] = [ast.unparse(node) for node in imports]
    return "\n".join(lines) + "\n"


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions and methods of a module by their names, such as "Linear.forward"."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return found | {
        f"{owner.name}.{node.name}": node
        for owner in classes
        for node in owner.body
        if isinstance(node, ast.FunctionDef)
    }


if __name__ == "__main__":
    build(Path(sys.argv[1]))
