"""The sources of what a problem forbids cannot be read."""

import importlib.util
import re
import sysconfig
from pathlib import Path

import pytest

from grader.base.errors import Raised
from grader.worker import guarded_sources
from tests.grader.in_the_sandbox import answer, ask, session

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]
WAYS_TO_READ = {
    "open": "open(path, 'rb').read()",
    "a path object": "os.read(os.open(pathlib.Path(path), 0), 10**6)",
    "bytes": "io.FileIO(path.encode()).read()",
    "open_code": "io.open_code(path).read()",
    "its folder": "(os.chdir(folder), open(name, 'rb').read())[1]",
    "a folder's descriptor": "os.read(os.open(name, 0, dir_fd=os.open(folder, 0)), 10**6)",
    "a folder below /proc": "open(f'/proc/self/fd/{os.open(folder, 0)}/{name}', 'rb').read()",
    "the root below /proc": "open(f'/proc/self/root{path}', 'rb').read()",
    "a link": "(os.symlink(path, '/tmp/link'), open('/tmp/link', 'rb').read())[1]",
    "a link to its folder": "(os.symlink(folder, 'l'), open(f'l/{name}', 'rb').read())[1]",
    "a dotted path": "open(f'{folder}/../{os.path.basename(folder)}/./{name}', 'rb').read()",
    "a map": "np.memmap(path, dtype=np.uint8, mode='r').tobytes()",
    "numpy": "np.fromfile(path, dtype=np.uint8).tobytes()",
    "linecache": "''.join(linecache.getlines(path)).encode()",
    "a loader": "importlib.machinery.SourceFileLoader('m', path).get_data(path)",
    "resources": "importlib.resources.files('torch.nn.modules').joinpath(name).read_bytes()",
    "a tensor": "bytes(torch.from_file(path, size=size, dtype=torch.uint8).tolist())",
    "a storage": "read(torch.UntypedStorage.from_file(path, False, size))",
    "a typed storage": "read(torch.ByteStorage.from_file(path, False, size))",
    "an operator": "bytes(torch.ops.aten.from_file(path, size=size, dtype=torch.uint8).tolist())",
}


READS = """
import importlib.machinery, importlib.resources, io, linecache, os, pathlib
import numpy as np, torch
def read(storage):
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes()
def f(path):
    found = []
    for way in [{}]:
        os.chdir("/tmp")
        try:
            seen = way(path, *os.path.split(path), os.path.getsize(path))
            found.append(b"class" in seen or seen)
        except PermissionError:
            found.append("denied")
    return found
"""


def test_a_guarded_source_is_read_in_no_way(sandbox):
    """Any other file is read in each of these ways, so that honest code may use them."""
    ways = (f"lambda path, folder, name, size: {way}" for way in WAYS_TO_READ.values())
    source = READS.format(", ".join(ways))
    forbidden = ["torch.nn.functional.linear", "torch.nn.Linear"]
    linear, activation = (f"/site/torch/nn/modules/{name}.py" for name in ("linear", "activation"))
    every = dict.fromkeys(WAYS_TO_READ, True)
    seen = answer(sandbox, source, linear), answer(sandbox, source, activation, forbidden=forbidden)
    assert [every] * 2 == [dict(zip(WAYS_TO_READ, one, strict=True)) for one in seen]
    guarded = answer(sandbox, source, linear, forbidden=forbidden)
    denied = dict.fromkeys(WAYS_TO_READ, "denied") | {"linecache": b""}
    assert denied == dict(zip(WAYS_TO_READ, guarded, strict=True))


LOADS = """
    import importlib.machinery, importlib.util, shutil, sys, tempfile
    def f(name, way):
        sys.modules.pop(name, None)
        if way == "its own name" or name in sys.builtin_module_names:
            return importlib.import_module(name) is not None
        file = importlib.util.find_spec(name).origin
        if way == "a copy":
            file = shutil.copy(file, tempfile.gettempdir())
        foreign = f"assignment.{name}"
        loader = importlib.machinery.ExtensionFileLoader(foreign, file)
        spec = importlib.util.spec_from_file_location(foreign, file, loader=loader)
        return loader.create_module(spec) is not None
"""
HERE = [name for name in guarded_sources.UNHEARD if importlib.util.find_spec(name)]
WAYS_TO_LOAD = ["its own name", "a foreign name", "a copy"]


@pytest.mark.parametrize("way", WAYS_TO_LOAD)
def test_modules_in_c_that_tell_python_nothing_cannot_be_loaded(way, sandbox):
    """They open files, run Python or start programs that no audit hook hears of."""
    for name in {"readline", "_testcapi"} & {*HERE}:
        assert answer(sandbox, LOADS, name, way)
    with session(sandbox, LOADS, forbidden=["torch.nn.Linear"]) as made:
        for name in HERE:
            with pytest.raises(Raised, match="may not be loaded in this") as caught:
                ask(made, name, way)
            assert "ImportError" in caught.value.kinds


def test_other_modules_in_c_can_be_loaded(sandbox):
    """Honest code may need them, and a library may import them late."""
    for name in ("_elementtree", "_sqlite3"):
        if importlib.util.find_spec(name):
            assert answer(sandbox, LOADS, name, "its own name", forbidden=["torch.nn.Linear"])


def test_every_module_in_c_that_opens_files_itself_is_listed():
    """Their files name what they call. Two contain the word "open" and call no such function."""
    calls = re.compile(rb"\0(?:fopen|open|openat|execv|PyRun_\w+|Py_NewInterpreter\w*)(?:64)?\0")
    folder = Path(sysconfig.get_path("stdlib"), "lib-dynload")
    found = [path for path in folder.glob("*.so") if calls.search(path.read_bytes())]
    known = {*guarded_sources.UNHEARD, "_zoneinfo", "pyexpat"}
    assert {path.name.partition(".")[0] for path in found} <= known


def test_functions_in_c_are_no_way_to_a_guarded_source(sandbox):
    """They would not tell Python, so they cannot be found where something is guarded."""
    source = """
        def finds():
            import ctypes
            return bool(ctypes.CDLL(None).open)
        def finds_in_a_thread():
            import ctypes
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor() as pool:
                return bool(pool.submit(ctypes.CDLL, None).result())
        def has():
            import ctypes
            return bool(ctypes.pythonapi.Py_IncRef)
    """
    rules = {"forbidden": ["torch.nn.Linear"]}
    for function in ("finds", "finds_in_a_thread", "has"):
        with session(sandbox, source, **rules) as made, pytest.raises(Raised) as caught:
            ask(made, function=function)
        assert "PermissionError" in caught.value.kinds
    with session(sandbox, source) as made:
        assert ask(made, function="finds")
