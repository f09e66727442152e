"""The second level of isolation: its promises, its cleanup, and when it is used.

tests/grader/test_attacks.py also runs the attacks at this level.
"""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from grader.base.errors import Crashed, Raised, SandboxUnavailable
from grader.results.merge_runs import WEAKEST_FIRST
from grader.sandbox import levels
from grader.sandbox.levels import landlock
from grader.worker import isolation_walls
from tests.grader.classroom.a_class import LISTS, hand_in
from tests.grader.in_the_sandbox import COURSE, MIB, NEEDS_LANDLOCK, answer, ask, plain_box, session
from tests.grader.processes import processes, ran, until
from tests.grader.small_courses import with_lists

LEVEL = levels.LEVELS["landlock"]


def at_this_level(test):
    """Mark a test that needs this level; all of them share the sandboxes of a process."""
    return NEEDS_LANDLOCK(pytest.mark.slow(pytest.mark.xdist_group("sandbox")(test)))


GOOD = {
    "works": True, "is_student": True, "reads": [], "lists": [], "writes": [], "signals": [],
    "status": {"capabilities": 0, "no_new_privileges": True, "seccomp": 2}, "sockets": [],
    "rises": [], "nests": False, "seen": True, "gpu": None,
}  # fmt: skip
BROKEN = {
    "works": False, "is_student": False, "reads": ["/etc/passwd"], "lists": ["/"],
    "writes": ["/tmp"], "signals": [1], "sockets": ["local streams"], "rises": [0], "nests": True,
    "status": {"capabilities": 1, "no_new_privileges": False, "seccomp": 0}, "seen": False,
}  # fmt: skip


def test_every_try_stands_for_a_promise():
    """If any check by the worker has an unexpected outcome, a promise counts as broken."""
    assert all(LEVEL.promises({"tried": GOOD}).values())
    assert GOOD.keys() == BROKEN.keys() | {"gpu"}
    for name, value in BROKEN.items():
        promises = LEVEL.promises({"tried": {**GOOD, name: value}})
        assert not all(promises.values()), name
    with pytest.raises(SandboxUnavailable, match=r"landlock does not start: OSError: no"):
        LEVEL.promises({"tried": {"failed": "OSError: no"}})


@pytest.fixture(scope="module")
def sandbox():
    with plain_box("landlock") as running:
        yield running


STAYS = """
    import os, signal
    def f():
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                while True:
                    signal.pause()
        return os.getuid()
"""


@at_this_level
def test_the_student_is_another_user_than_the_zygote(sandbox):
    """Neither user is root, and the student's user has no process left after a test."""
    user = answer(sandbox, STAYS)
    assert list(LEVEL.promises({"tried": GOOD})) == sandbox.promises  # by `grader isolation`
    zygote = processes("Pid", sandbox.host_pid)
    assert user == sandbox.facts["uid"] > 10**9
    assert zygote == [sandbox.host_pid]
    status = Path(f"/proc/{sandbox.host_pid}/status").read_text()
    assert str(user) not in status
    assert "Uid:\t0" not in status
    with session(sandbox, "") as made:
        made.inspect({})  # waits until the last test has ended
        assert 1 == len(processes("Uid", user))


DEEP = """
    def deep():
        for _ in range(1010):  # more than Python may call itself
            os.mkdir("deeper")
            os.chdir("deeper")
        open("file", "w").close()
        return os.environ["TMPDIR"]
"""


@at_this_level
def test_when_the_zygote_is_killed_its_processes_and_files_go_and_the_next_test_runs(plain):
    """The grader itself then does what the zygote normally does."""
    source, own = STAYS.replace("return os.getuid()", "return [].pop()") + DEEP, plain("landlock")
    with session(own, source) as made:
        user = own.facts["uid"]
        with pytest.raises(Raised, match="pop"):
            ask(made)
        assert len(processes("Uid", user)) == 4
        folder = Path(ask(made, function="deep")).parent
        assert (folder / "scratch" / "deeper" / "deeper").is_dir()
        os.kill(own.host_pid, signal.SIGKILL)
        made.close()
        assert 3 == answer(own, "def f(): return 3")
        until(lambda: processes("Uid", user) == [])  # a killed process takes a moment to end
        assert not folder.exists()


FILLS = """
    import os, time
    def f(close):
        top = os.environ["TMPDIR"]
        os.mkdir(f"{top}/a")
        fd = os.open(f"{top}/a", os.O_RDONLY)
        for n in range(3):
            with open(f"{top}/a/{n}", "wb") as file:
                file.write(bytes(2**19))
        if close == "every folder":
            os.fchmod(fd, 0)
            os.chmod(top, 0)
        elif close == "again and again":
            while True:
                os.chmod(f"{top}/a", 0o300)
        elif close == "the length of its path":
            for _ in range(700):
                os.rename(f"{top}/a", f"{top}/b")
                os.mkdir(f"{top}/a")
                os.rename(f"{top}/b", f"{top}/a/b")
        else:
            os.chmod(f"{top}/a", close)
        while True:
            time.sleep(0.01)
"""


@at_this_level
@pytest.mark.parametrize(
    "close", [0o300, 0o400, 0, "every folder", "again and again", "the length of its path"]
)
def test_files_in_a_folder_that_is_closed_to_the_zygote_count_too(sandbox, close):
    """The zygote opens the folder again; where it cannot, the test has exceeded its limit."""
    with pytest.raises(Crashed, match=r"it wrote more than|whose size cannot be found out"):
        answer(sandbox, FILLS, close)


@at_this_level
def test_a_closed_folder_with_little_in_it_costs_nothing(sandbox):
    """The zygote may look while the folder is closed."""
    source = """
        import os, time
        def f():
            os.makedirs("a/b")
            os.chmod("a/b", 0), os.chmod("a", 0)
            return time.sleep(0.3)
    """
    assert answer(sandbox, source) is None


HOLDS = """
    import ctypes, mmap, os, socket, time
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    kept = []
    def filled(fd):
        os.write(fd, bytes(2**18))
        return fd
    def nameless():
        fd = filled(os.open("x", os.O_CREAT | os.O_RDWR))
        os.unlink("x")
        return fd
    def in_a_process():
        fd = nameless()
        if os.fork():
            os.close(fd)
        else:
            time.sleep(1000)
    def sent():
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        kept.append(pair)
        fd = nameless()
        socket.send_fds(pair[0], [b"x"], [fd])
        os.close(fd)
    def mapped():
        fd = nameless()
        libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        os.close(fd)
    def sparse():
        fd = os.open("x", os.O_CREAT | os.O_RDWR)
        os.truncate(fd, 2**18)
        os.unlink("x")
        filled(fd)
    def never_named():
        filled(os.open(".", os.O_TMPFILE | os.O_RDWR))
    def reserved():
        fd = os.open("x", os.O_CREAT | os.O_RDWR)
        os.unlink("x")
        os.posix_fallocate(fd, 0, 2**18)
    def in_many_parts():  # whose reading would take the zygote seconds
        if not kept:
            size, pages = ctypes.c_size_t(mmap.PAGESIZE), 60_000
            private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            start = libc.mmap(None, ctypes.c_size_t(pages * size.value), 0, private, -1, 0)
            for page in range(0, pages, 2):
                libc.mprotect(ctypes.c_void_p(start + page * size.value), size, mmap.PROT_READ)
            kept.append(start)
            os.fork(), os.fork(), os.fork()  # whoever writes has three relatives at least
        never_named()
    def f(way):
        os.chdir(os.environ["TMPDIR"])
        for pause in range(10):  # again, because the zygote sees no loss if others free as much
            for _ in range(8):
                globals()[way]()
            time.sleep(pause)
"""
WAYS = ["nameless", "in_a_process", "sent", "mapped", "sparse", "never_named", "reserved"]


@at_this_level
@pytest.mark.parametrize("way", [*WAYS, pytest.param("in_many_parts", marks=pytest.mark.proof)])
def test_files_without_a_name_count_too(sandbox, way):
    """Whoever holds them: a descriptor, a process, a socket's buffer or a page of memory."""
    said = "" if way == "in_many_parts" else "it wrote more than|"
    with pytest.raises(Crashed, match=f"{said}whose size cannot be found out"):
        answer(sandbox, HOLDS, way)


HOLDS_LITTLE = """
    import multiprocessing, os, signal, tempfile, time
    def f(sign):
        lock = multiprocessing.get_context("fork").Lock()
        kept = tempfile.TemporaryFile()
        kept.write(bytes(2**18))
        kept.flush()
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        os.waitpid(child, os.WUNTRACED)
        open(os.environ["TMPDIR"] + "/began", "w").close()
        while not os.path.exists(sign):
            time.sleep(0.01)
        time.sleep(0.5)
        return lock.acquire(), os.waitpid(child, os.WNOHANG | os.WCONTINUED)
"""


@at_this_level
def test_what_others_write_is_no_tests_fault(sandbox):
    """A test that holds little is not ended because the disk has lost more than its limit.

    A stopped process stays stopped while files without a name are counted. The others begin when
    the test has written a file `began`, so that the grader knows how much was free. Its argument is
    the path of a file that exists once the disk has lost more than a test may use.
    """
    box = Path(sandbox._box._folder.name)
    sign, done = box / "runtime" / "sign", threading.Event()

    def disturb():
        until(lambda: any(box.rglob("began")))
        time.sleep(0.2)  # the grader looks every 0.05 s
        with tempfile.TemporaryFile(dir=box) as others:
            others.write(bytes(16 * MIB))
            others.flush()
            sign.touch()
            assert done.wait(600)

    with ThreadPoolExecutor() as pool:
        disturbed = pool.submit(disturb)
        try:
            assert (True, (0, 0)) == answer(sandbox, HOLDS_LITTLE, str(sign))
        finally:
            done.set()
        disturbed.result()


ON_A_FULL_DISK = """
import os, pytest, sys, tempfile
tempfile.tempdir = sys.argv[1]
from grader.base.errors import Crashed, GraderFault
from tests.grader.in_the_sandbox import answer, fault, plain_box

WRITES = '''
    import errno, os, tempfile
    def f(what, size):
        if what == "pretend":
            raise OSError(errno.ENOSPC, "pretended")
        with tempfile.TemporaryFile() as file:
            for _ in range(size):
                os.write(file.fileno(), bytes(2**20))
'''
with plain_box("landlock", scratch_bytes=2**23) as sandbox:
    answer(sandbox, WRITES, "write", 4)
    print(fault(sandbox, Crashed, WRITES, "pretend", 0)[1])
    print(fault(sandbox, Crashed, WRITES, "write", 1000)[1])
    answer(sandbox, WRITES, "write", 4)
    sandbox.wait_until_ready()  # its files are gone
    with open(f"{sys.argv[1]}/others", "wb") as others:
        disk = os.statvfs(others.fileno())
        os.posix_fallocate(others.fileno(), 0, disk.f_bavail * disk.f_frsize - 2**21)
        with pytest.raises(GraderFault) as caught:
            answer(sandbox, WRITES, "write", 4)
        print(caught.value)
        bare = plain_box("none", scratch_bytes=2**23)
        with bare as unlimited, pytest.raises(GraderFault) as caught:
            answer(unlimited, WRITES, "write", 4)
        print(caught.value)
"""


@at_this_level
def test_a_full_disk_is_the_fault_of_whoever_fills_it():
    """The kernel's error alone shows nothing, because a test can raise it as well."""
    script = 'mount -t tmpfs -o size=640m,mode=711 none "$1" && shift && exec "$@"'
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # that others may pass through
        command = ["unshare", "--mount", "sh", "-c", script, "sh", place]
        command += [sys.executable, "-c", ON_A_FULL_DISK, place]
        done = ran(command, cwd=COURSE.root)
    if "mount:" in done.stderr:
        pytest.skip(done.stderr)
    of_the_test = "it wrote more than 64 MiB of files, the limit of a test"
    of_others = (
        "the disk that tests write their files to is full: free some space, or set TMPDIR to a "
        "folder on another disk"
    )
    said = [of_the_test, of_the_test, of_others, of_others]
    assert done.stdout.splitlines() == said, done.stderr


OUTSIDE = """
    import os
    TRIES = {
        "set an attribute": lambda path: os.setxattr(path, "user.red", b"x"),
        "read an attribute": lambda path: os.getxattr(path, "user.old"),
        "list attributes": os.listxattr,
        "remove an attribute": lambda path: os.removexattr(path, "user.old"),
        "set a mode": lambda path: os.chmod(path, 0o777),
        "set a time": lambda path: os.utime(path, (1, 1)),
        "set the time to now": os.utime,
        "truncate": lambda path: os.truncate(path, 1),
        "write": lambda path: os.open(path, os.O_WRONLY),
        "read": lambda path: os.open(path, os.O_RDONLY),
        "rename": lambda path: os.rename(path, path + "x"),
        "link": lambda path: os.link(path, os.environ["TMPDIR"] + "/x"),
    }
    def f(path):
        done = []
        for name, act in TRIES.items():
            try:
                act(path)
                done.append(name)
            except OSError:
                pass
        return done
"""


@at_this_level
def test_a_file_outside_that_anyone_may_write_keeps_its_attributes(sandbox):
    """Landlock lacks such rights: the filter denies the calls, or ignores them, as copy2 needs."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder, "file")
        path.write_bytes(b"outside")
        for opened in (path.parent, path):
            opened.chmod(0o777)
            with suppress(OSError):  # this file system has no attributes
                os.setxattr(opened, "user.old", b"secret")
        for opened in (path, path.parent):
            before = opened.stat()
            assert ["set a time"] == answer(sandbox, OUTSIDE, str(opened))  # so it seems
            assert opened.stat().st_mtime_ns == before.st_mtime_ns
            assert opened.stat().st_mode == before.st_mode
        assert b"outside" == path.read_bytes()


@pytest.mark.parametrize(
    "change", [{"f_flag": os.ST_NOEXEC}, {"f_bavail": landlock.LEAST_FREE // 4096 - 1}]
)
def test_the_folder_lies_where_programs_may_run_and_is_space(monkeypatch, tmp_path, change):
    """It lies in no folder that others cannot enter, that is mounted noexec, or that is full."""
    monkeypatch.setattr(landlock.tempfile, "tempdir", str(tmp_path))  # pytest closes it to others
    with LEVEL.new_folder() as made:
        assert Path(made).parent != tmp_path
        assert 0o711 == stat.S_IMODE(Path(made).stat().st_mode)
    usable = {"f_flag": 0, "f_bavail": landlock.LEAST_FREE, "f_frsize": 4096}
    monkeypatch.setattr(landlock.os, "statvfs", lambda p: SimpleNamespace(**usable | change))
    monkeypatch.setattr(landlock, "PLACES", ("/tmp", "/var/tmp"))
    with pytest.raises(SandboxUnavailable, match=r"/tmp or /var/tmp has less than 256 MiB"):
        LEVEL.new_folder()


@NEEDS_LANDLOCK
def test_a_container_with_few_users_or_without_a_capability_is_noticed(monkeypatch):
    """The message names what to add; without the check, a grade would end in a traceback."""
    monkeypatch.setattr(landlock.visible_files, "FIRST_USER", 2**32)
    assert "this container has no user ids from 4,294,967,296 upwards" == LEVEL.why_not()
    monkeypatch.setattr(landlock, "_capabilities", lambda: 0b1100_0001)
    lacks = "root lacks the capability KILL here: start the container with --cap-add KILL"
    assert lacks == LEVEL.why_not()


KILLED = """
import sys, time
from tests.grader.in_the_sandbox import ask, plain_box, session
with plain_box("landlock") as box, session(box, sys.argv[1]) as made:
    ask(made)
    print(box.facts["uid"], flush=True)
    time.sleep(600)
"""


@at_this_level
def test_when_the_grader_is_killed_nothing_of_the_student_lives_on(root):
    """The zygote outlives the grader just long enough to kill all other processes."""
    command = [sys.executable, "-c", KILLED, STAYS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as running:
        user = int(running.stdout.readline())
        assert len(processes("Uid", user)) == 4
        running.kill()
    until(lambda: processes("Uid", user) == [])


@at_this_level
def test_python_in_a_closed_folder_is_copied_and_large_packages_are_refused(monkeypatch, tmp_path):
    big = tmp_path / "closed" / "big"
    big.mkdir(parents=True)
    big.parent.chmod(0o700)
    (big / "file").write_bytes(bytes(2 * MIB))
    monkeypatch.setattr(landlock.visible_files, "package_paths", lambda packages: (big,))
    monkeypatch.setattr(landlock, "MOST_COPIED_BYTES", MIB)
    sentence = r"may not pass through /.*, where big is: chmod o\+x /"
    with pytest.raises(SandboxUnavailable, match=sentence):
        plain_box("landlock")


def test_a_file_of_the_same_disk_has_two_names_and_another_is_copied(tmp_path):
    """A copy of Python takes a second, and a second name of each file a tenth of that."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").write_text("x")
    for source, name in ((tmp_path / "a", "c"), ("/proc/version", "d")):
        landlock._named_again(source, tmp_path / name)
        assert (tmp_path / name).read_text() == Path(source).read_text()
        assert not (tmp_path / name).is_symlink()
    assert [2, 1] == [os.lstat(tmp_path / name).st_nlink for name in "cd"]


@NEEDS_LANDLOCK
def test_a_child_counts_before_it_has_become_the_students_user():
    """Otherwise, a slow start would look like a test that no longer runs."""
    wall = isolation_walls.OwnUser({"uid": 1_234_567_890}, "")
    for _ in range(2):
        assert [str(os.getpid())] == wall.processes(os.getpid())
    assert [] == wall.processes(2**30)


def test_the_strongest_level_that_works_is_chosen(monkeypatch, capsys):
    """The grader announces a weaker level with the reason; if no level works, nothing runs."""

    def works(**answers):
        tried = {name: SimpleNamespace(why_not=lambda a=a: a) for name, a in answers.items()}
        monkeypatch.setattr(levels, "TRIED", tried)

    works(bubblewrap=None, landlock=None)
    assert ("bubblewrap", "") == (levels.strongest(), capsys.readouterr().err)
    works(bubblewrap="it is missing", landlock=None)
    assert "landlock" == levels.strongest()
    notice = "grader: it is missing; so submissions are isolated by landlock, the second level\n"
    assert notice == capsys.readouterr().err
    works(bubblewrap="it is missing", landlock="the kernel is old")
    with pytest.raises(SandboxUnavailable, match=r"^it is missing; the kernel is old$"):
        levels.strongest()


def test_results_of_two_levels_merge_to_the_weaker():
    """merge_runs.py lists all levels, from the weakest to the strongest."""
    assert [*reversed(WEAKEST_FIRST)] == list(get_args(levels.Isolation))


@at_this_level
def test_without_bubblewrap_root_grades_at_the_second_level(grader, tmp_path):
    hand_in(tmp_path, "ada", LISTS)
    course = with_lists(tmp_path / "course")
    path = {**os.environ, "PATH": str(tmp_path)}
    done = grader("grade", tmp_path / "ada.zip", "--course", course, env=path)
    assert 0 == done.returncode
    assert "bubblewrap is not installed" in done.stderr
    assert "isolated by landlock, the second level" in done.stderr
    assert "isolation landlock" in done.stdout
