"""Build reproducible release bundles from an allow-list of files, without secrets.

If a file or a line in a bundle is secret (see `secret_leaks`), nothing is written.
"""

import re
import tomllib
from contextlib import suppress
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kit
from grader.base.errors import ReleaseRefused
from grader.base.markdown_figures import without_marks
from grader.course.courses import Course, files_below, sources_in
from grader.publish import stub_files
from grader.publish.secret_leaks import leaks, of_the_staff, secrets
from kit import handing_in
from kit.safe_text import counted

FOLDER = "student"  # at the top of the student's zip; README.md says so for Colab, too
# The keys of problems.toml that only the staff needs.
OF_THE_STAFF = ("folders", "preload", "green_may_lose", "declined")


def student(course: Course, built: Path | None) -> dict[str, bytes]:
    """The files of the student bundle, by their path in it.

    Args:
        course: The course to release.
        built: The folder with the built handout: site/, handout.pdf and made_from. With None, the
            handout is its Markdown.

    Raises:
        ReleaseRefused: A stub has drifted from its reference, a secret line or a file of the staff
            would be published, or the built handout is missing or was built from another text.
    """
    if drifted := stub_files.drifted(course):
        raise ReleaseRefused(
            f"{drifted[0].relative_to(course.root)} differs from its reference: "
            "run `grader stubs` first"
        )
    files = {path: _given(course.root / path) for path in _of_students(course)}
    files["assignment/problems.toml"] = of_students(
        course.list_of_problems.read_text(encoding="utf-8")
    ).encode()
    files |= _settings(course)
    # Hidden files, too, because a workflow is in .github/.
    bundle = course.bundle / "student"
    inside = [path for path in bundle.rglob("*") if path.is_file()]
    files |= {path.relative_to(bundle).as_posix(): path.read_bytes() for path in inside}
    _check_packages(course, files["pyproject.toml"])
    # A handout without conf.py is only Markdown and is not built.
    site = built if (course.handout / "conf.py").is_file() else None
    files |= _handout(site) if site else {}
    if found := leaks(files, secrets(course)):  # the kit has nothing of a course
        raise ReleaseRefused(
            f"{counted(len(found), 'secret line')} would be published:\n"
            + "\n".join(f"  {leak}" for leak in found[:20])
            + f"\nchange each line, or add it to {course.bundle / 'shared_lines.txt'} if it is a "
            "coincidence"
        )
    if ours := list(of_the_staff(files)):
        raise ReleaseRefused("these would be published:\n" + "\n".join(f"  {one}" for one in ours))
    if site and (site / "made_from").read_text(encoding="utf-8") != course.handout_sha256():
        raise ReleaseRefused(
            f"{site} was built from another version of the handout: run `make handout` again"
        )
    if site:  # then students read the pages, and not the text that they are made of
        files = {
            path: files[path] for path in files if not re.fullmatch(r"handout/[^/]+\.md", path)
        }
    files |= kit_files()
    if not course.uses_torch:
        for module in kit.NEED_TORCH:
            del files[f"{module.replace('.', '/')}.py"]
    return dict(sorted(files.items()))


def of_students(text: str) -> str:
    """A problems.toml without the keys that only the staff needs, and without their comments."""
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    while lines:
        if not re.match(rf"({'|'.join(OF_THE_STAFF)})\s*=", lines[0]):
            kept.append(lines.pop(0))
            continue
        value = lines.pop(0)
        while not _is_toml(value):
            value += lines.pop(0)
        while kept and kept[-1].startswith("#"):
            kept.pop()
        if lines and not lines[0].strip() and (not kept or not kept[-1].strip()):
            lines.pop(0)
    return "".join(kept)


def _is_toml(text: str) -> bool:
    """Whether a value is complete."""
    with suppress(tomllib.TOMLDecodeError):
        return bool(tomllib.loads(text))
    return False


def _settings(course: Course) -> dict[str, bytes]:
    """A README and a pyproject.toml, for a course that has none of its own."""
    title = course.root.resolve().name
    words = {
        "TITLE": title,
        "NAME": re.sub("[^a-z0-9]+", "-", title.lower()).strip("-") or "course",
        "DEPENDENCIES": '", "'.join([*course.packages, "pytest>=8.2"]),
    }
    files = {}
    for path in (Path(__file__).parent / "default_student_bundle").iterdir():
        text = path.read_text(encoding="utf-8")
        for word, instead in words.items():
            text = text.replace(word, instead)
        files[path.name] = text.encode()
    return files


def _check_packages(course: Course, pyproject: bytes) -> None:
    """Refuse a pyproject.toml of the course's own that does not install its packages."""
    listed = tomllib.loads(pyproject.decode())["project"]["dependencies"]
    installed = {canonicalize_name(Requirement(package).name) for package in listed}
    for package in [*course.packages, "pytest"]:
        if canonicalize_name(Requirement(package).name) not in installed:
            raise ReleaseRefused(
                f"{course.bundle}/student/pyproject.toml: expected {package} among its "
                f"dependencies; got {', '.join(listed)}"
            )


def kit_files() -> dict[str, bytes]:
    """The kit, which every course and every student gets unchanged."""
    return {
        f"kit/{path.relative_to(kit.HERE).as_posix()}": path.read_bytes()
        for path in kit.HERE.rglob("*.py")
    }


def _given(path: Path) -> bytes:
    """A file's content for students: the marks of figures are removed from handout pages."""
    content = path.read_bytes()
    return (
        without_marks(content.decode("utf-8")).encode("utf-8") if path.suffix == ".md" else content
    )


def _handout(built: Path) -> dict[str, bytes]:
    """The site, and the PDF if there is one."""
    if not (built / "made_from").is_file():
        raise ReleaseRefused(f"the handout is not built in {built}: run `make handout` first")
    files = [
        path for path in [built / "handout.pdf", *(built / "site").rglob("*")] if path.is_file()
    ]
    return {f"handout/{path.relative_to(built).as_posix()}": path.read_bytes() for path in files}


def _of_students(course: Course) -> list[str]:
    """The files of the course that students get, as paths relative to its root."""
    given = [name for name in handing_in.THE_COURSES if (course.root / name).is_file()]
    given += sources_in(course.assignment)
    given += ["tests/__init__.py", "tests/conftest.py"]
    files = [*files_below(course.tests / "public"), *files_below(course.tests / "probes")]
    files += course.handout.glob("*.md")
    for name in course.folders:
        if not (below := files_below(course.root / name)):
            raise ReleaseRefused(
                f"{course.list_of_problems}: folders names {name}, but {course.root / name} has "
                "no files"
            )
        files += below
    given += [path.relative_to(course.root).as_posix() for path in files]
    return sorted(set(given))
