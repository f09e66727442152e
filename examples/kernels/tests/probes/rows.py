"""Compile a student's C++, and call it by ctypes."""

import ctypes
import os
import subprocess
import tempfile

import torch
from torch import Tensor


def softmax(student, *, x: Tensor) -> Tensor:
    """The student's softmax of each row of a matrix in float32."""
    function = _library(student.rows.softmax_source()).softmax
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
    x, out = x.contiguous(), torch.full(x.shape, float("nan"))
    function(x.data_ptr(), out.data_ptr(), *x.shape)
    return out


def _library(source: str) -> ctypes.CDLL:
    """Compile a source and load it.

    Raises:
        ValueError: The compiler refuses it; the text is the compiler's first complaint.
    """
    file = f"{tempfile.mkdtemp()}/rows.so"
    command = [os.environ.get("CXX", "g++"), "-xc++", "-O2", "-shared", "-fPIC", "-", "-o", file]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error: " in line] or [done.stderr]
        raise ValueError(f"the compiler says: {said[0][:400]}")
    return ctypes.CDLL(file)
