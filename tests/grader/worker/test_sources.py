"""The sources of what a problem forbids cannot be read."""

import pytest

from tests.grader.in_the_sandbox import answer, ask, session

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]
WAYS_TO_READ = {
    "open": "open(path, 'rb').read()",
    "a path object": "os.read(os.open(pathlib.Path(path), 0), 10**6)",
    "bytes": "io.FileIO(path.encode()).read()",
    "open_code": "io.open_code(path).read()",
    "a folder's descriptor": "os.read(os.open(name, 0, dir_fd=os.open(folder, 0)), 10**6)",
    "its folder": "(os.chdir(folder), open(name, 'rb').read())[1]",
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
    "a storage": "bytes(torch.UntypedStorage.from_file(path, False, size).tolist())",
    "a typed storage": "bytes(torch.ByteStorage.from_file(path, False, size).tolist())",
    "an operator": "bytes(torch.ops.aten.from_file(path, size=size, dtype=torch.uint8).tolist())",
}


READS = """
import importlib.machinery, importlib.resources, io, linecache, os, pathlib
import numpy as np, torch
def f(path):
    folder, name = os.path.split(path)
    size = os.path.getsize(path)
    try:
        return {}
    except PermissionError:
        return b"denied"
"""


@pytest.mark.parametrize("way", WAYS_TO_READ.values(), ids=WAYS_TO_READ)
def test_a_guarded_source_is_read_in_no_way(way, sandbox):
    """Any other file is read in each of these ways, so that honest code may use them."""
    source = READS.format(way)
    forbidden = ["torch.nn.functional.linear", "torch.nn.Linear"]
    assert b"class" in answer(sandbox, source, "/site/torch/nn/modules/linear.py")
    guarded = answer(sandbox, source, "/site/torch/nn/modules/linear.py", forbidden=forbidden)
    assert guarded == b"" if "linecache" in way else guarded == b"denied"
    assert b"class" in answer(
        sandbox, source, "/site/torch/nn/modules/activation.py", forbidden=forbidden
    )


def test_modules_in_c_that_open_files_are_no_way_to_a_guarded_source(sandbox):
    """They would not tell Python, so they cannot be imported or used where something is guarded."""
    source = """
        def imports():
            import readline
        def finds():
            import ctypes
            return bool(ctypes.CDLL(None).open)
        def has():
            import ctypes
            return bool(ctypes.pythonapi.Py_IncRef)
    """
    rules = {"forbidden": ["torch.nn.Linear"]}
    for function, error in [
        ("imports", ImportError),
        ("finds", PermissionError),
        ("has", PermissionError),
    ]:
        with session(sandbox, source, **rules) as made, pytest.raises(error):
            ask(made, function=function)
    with session(sandbox, source) as made:
        assert ask(made, function="finds")
