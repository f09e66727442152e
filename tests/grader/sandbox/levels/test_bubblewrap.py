"""The sandbox from inside, by bubblewrap: privileges, the network, and what can be seen."""

import errno
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

import kit
from grader.base.errors import Crashed, Status
from grader.sandbox import levels, visible_files
from tests.grader.in_the_sandbox import LOOK, MACHINE, MIB, SYSCALLS, answer, fault, plain_box
from tests.grader.ordinary_user import NEEDS_ROOT, as_an_ordinary_user
from tests.grader.processes import alive, ran, until
from tests.grader.sampling import every

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]
LEVEL = levels.LEVELS["bubblewrap"]


@pytest.mark.parametrize("milliseconds", every(3, [0, 2, 4, 6, 8, 10, 12, 14]))
def test_a_bubblewrap_that_is_killed_while_it_starts_leaves_nobody(milliseconds):
    """No child is left waiting if bubblewrap dies before the child has begun to watch it."""
    box = plain_box("bubblewrap")
    pid = box._box.process.pid
    time.sleep(milliseconds / 1000)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.01)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    box.close()
    until(lambda: not alive([int(child) for child in children]))


# What the zygote reports of itself, and what it must not report.
FACTS = {
    "pid": (1, 2), "uid": (1000, 0), "capabilities": (0, 1), "no_new_privileges": (True, False),
    "seccomp": (2, 0), "nests": (False, True),
}  # fmt: skip


def test_every_fact_stands_for_a_promise():
    good = {name: value for name, (value, _) in FACTS.items()}
    assert all(LEVEL.promises(good).values())
    for name, (_, worse) in FACTS.items():
        assert [*LEVEL.promises({**good, name: worse}).values()].count(False) == 1, name


def test_a_students_process_has_no_privilege(sandbox):
    """It has no capability and no further group, owns nothing, and cannot remove its filter."""
    source = """
        import os
        def f():
            lines = open("/proc/self/status").read().splitlines()
            status = dict(line.split(":\\t", 1) for line in lines)
            return status, os.getresuid(), os.getresgid(), os.getgroups()
    """
    status, users, groups, further = answer(sandbox, source)
    assert [0] * 3 == [int(status[name], 16) for name in ("CapPrm", "CapEff", "CapAmb")]
    assert ("1", "2") == (status["NoNewPrivs"], status["Seccomp"])
    assert 0 not in (*users, *groups, *further)
    assert {*further} <= {65534, *groups}


def test_the_environment_holds_only_our_variables(sandbox):
    assert "PATH" in os.environ
    names = answer(sandbox, "import os\ndef f():\n    return sorted(os.environ)\n")
    ours = {
        "HOME", "USER", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PYTHONHASHSEED",
        "GLIBC_TUNABLES", "PYTHONDONTWRITEBYTECODE", "PYTHONWARNINGS",
    }  # fmt: skip
    torchs = {n for n in names if n.startswith(("TORCH", "KMP", "TRITON", "KINETO"))}
    assert ours == {*names} - torchs - {"PWD", "LC_CTYPE"}


WRITE = """
    import os
    def f(path):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        except OSError as e:
            return os.strerror(e.errno)
        return "written"
"""


def test_nothing_but_tmp_can_be_written_to(sandbox):
    """Each folder is on a read-only file system, whoever owns it."""
    paths = "/ /dev /etc /site /site/torch /runtime /course/tests/probes /python /usr"
    flags = "import os\ndef f(paths):\n    return [os.statvfs(p).f_flag for p in paths]\n"
    assert all(flag & os.ST_RDONLY for flag in answer(sandbox, flags, paths.split()))
    assert "written" == answer(sandbox, WRITE, "/tmp/x")


def test_of_the_project_only_what_a_student_needs_can_be_seen(sandbox):
    """The search leaves out the packages, the libraries of the system and the kernel's folders."""
    source = """
        import os
        def f():
            found = []
            for folder, folders, files in os.walk("/"):
                if folder == "/":
                    others = ("proc", "dev", "sys", "site", "python", "usr")
                    folders[:] = [n for n in folders if n not in others]
                found += [os.path.join(folder, n) for n in files if not n.endswith(".pyc")]
            return sorted(found)
    """
    root = visible_files.GRADER.parent
    parts = [p for room in ("worker", "wire") for p in (root / "grader" / room).glob("*.py")]
    grader = [f"/runtime/{path.relative_to(root)}" for path in parts]
    probes = [f"/course/{path.relative_to(root)}" for path in (root / "tests/probes").rglob("*.py")]
    names = "student student_programs forbidden_in_source gpu_stand_in loaded_libraries"
    tools = [f"/course/kit/{name}.py" for name in ("__init__", *names.split())]
    theirs = [f"/tmp/submission/assignment/{name}.py" for name in ("__init__", "m")]
    expected = {*grader, *probes, *tools, *theirs}
    assert expected == set(answer(sandbox, source)) - {"/etc/ld.so.cache"}


def test_of_the_packages_only_those_that_are_allowed_can_be_seen(sandbox):
    """pytest, the grader's own libraries and the grader are not visible."""
    source = "import os\ndef f(*paths):\n    return [sorted(os.listdir(path)) for path in paths]\n"
    packages, library = answer(sandbox, source, "/site", "/python/lib")
    assert {path.name for path in visible_files.package_paths(kit.USUAL_PACKAGES)} == set(packages)
    assert {"torch", "numpy", "einops", "jaxtyping"} <= set(packages)
    ours = "pytest _pytest grader tests msgspec rich typer hypothesis pip"
    assert not {*ours.split()} & set(packages)
    assert not any("resource_accounting" in name for name in packages)
    assert not any("packages" in name for name in library)


def test_no_path_of_the_graders_shows(sandbox):
    """No path is in sys.path, in torch's or Python's locations, or in the targets of mounts."""
    source = """
        import os, sys, torch
        def f():
            found = [sys.prefix, sys.base_prefix, sys.executable, torch.__file__, os.getcwd()]
            return [*sys.path, *found, *sys.argv]
    """
    allowed = ("/python", "/site", "/course", "/tmp", "/usr", "/runtime")
    paths = [path for path in answer(sandbox, source) if path.startswith("/")]
    assert [] == [path for path in paths if not path.startswith(allowed)]


SCRIPT = """
from tests.grader.in_the_sandbox import answer, plain_box
walk = "[d for d, _, _ in os.walk('/') if os.access(d, os.W_OK) and not d.startswith('/proc/')]"
mark = "os.chmod('/tmp', 0o1745), os.utime('/tmp', (9, 9)), os.mkdir('/tmp/mark')"
look = "tmp.st_mode & 0o7777 == 0o1745, tmp.st_mtime == 9, os.listdir('/tmp')"
with plain_box("bubblewrap") as sandbox:
    root, writable, _, left = (
        answer(sandbox, f"import os\\ndef f(tmp=os.stat('/tmp')): return {what}")
        for what in ("os.listdir('/')", walk, mark, look)
    )
    facts = sandbox.facts
    rights = facts["uid"] == 0, facts["capabilities"] == 0, facts["seccomp"]
    print(sandbox.isolation, facts["pid"] == 1, *rights, "site" in root)
    print([d for d in writable if not d.startswith("/tmp")], left)
"""


@NEEDS_ROOT
def test_an_ordinary_user_gets_the_same_box():
    """In a user namespace, the zygote is process 1, without capabilities and with the filter.

    The writable folder and the one that hides packages belong to that user, as all of the box does.
    """
    gets_the_same_box({})


def gets_the_same_box(environment):
    """Run SCRIPT as a user who owns nothing here; skip if that is impossible."""
    with as_an_ordinary_user() as words:
        line = [*words, sys.executable, "-c", SCRIPT]
        done = ran(line, cwd=visible_files.GRADER.parent, env=os.environ | environment)
    if "the sandbox cannot be started" in done.stderr:
        pytest.skip(f"that user cannot start a sandbox here: {done.stderr.strip()[-300:]}")
    told = "bubblewrap True False True 2 True\n[] (False, False, ['submission'])\n"
    assert (told, "") == (done.stdout, done.stderr)


# What 0.4.0 lacks.
UNKNOWN = (
    "--size|--disable-userns|--assert-userns-disabled|--perms|--chmod|--clearenv|--add-seccomp-fd"
)


def old_bubblewrap(folder):
    """A PATH on which `bwrap` refuses what version 0.4.0 lacked."""
    real = shutil.which("bwrap")
    script = f"""#!/bin/sh
if [ "$1" = --help ]; then {real} --help | grep -Ev -e '^ *({UNKNOWN}) '; exit; fi
for word do
    case "$word" in {UNKNOWN}) echo "bwrap: Unknown option $word" >&2; exit 1;; esac
done
exec {real} "$@"
"""
    folder.chmod(0o755)
    (folder / "bwrap").write_text(script)
    (folder / "bwrap").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_an_old_bubblewrap_makes_the_same_box(tmp_path, monkeypatch):
    """The sandbox is equally strict: its writable folder is limited, and it has no namespaces."""
    monkeypatch.setenv("PATH", old_bubblewrap(tmp_path))
    writes = """
        import time
        def f():
            for i in range(64):
                with open(f"/tmp/{i}", "wb", buffering=0) as file:
                    file.write(bytes(2**20))
                time.sleep(0.05)
    """
    with plain_box("bubblewrap", scratch_bytes=8 * MIB) as old:
        assert all(old.facts[name] == FACTS[name][0] for name in FACTS if name != "uid")
        flags = [0x10000000, 0x20000000, 0x00020000]
        calls = [[MACHINE.calls["unshare"], flag, 0] for flag in flags]
        calls += [[MACHINE.calls["clone"], flag | 17, 0, 0, 0, 0] for flag in flags]
        assert [errno.EPERM] * 6 == answer(old, SYSCALLS, calls)
        expected = (Status.CRASHED, "it wrote more than 64 MiB of files, the limit of a test", None)
        assert expected == fault(old, Crashed, writes)
        assert "written" == answer(old, WRITE, "/tmp/x")
        assert answer(old, WRITE, "/site/x") == "Read-only file system"
        assert (["submission"], 2) == answer(old, LOOK)


@pytest.mark.proof
@NEEDS_ROOT
def test_an_old_bubblewrap_makes_the_same_box_for_an_ordinary_user(tmp_path):
    """The filter replaces --disable-userns, and the worker checks that no namespace can be made."""
    for folder in [*tmp_path.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o055)
    gets_the_same_box({"PATH": old_bubblewrap(tmp_path)})
