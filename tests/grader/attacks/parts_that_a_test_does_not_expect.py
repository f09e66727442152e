"""Forge replies of the right type whose parts a test does not expect.

group: forge the verdict
target: precision
reference: before
status: failed, crashed
earns: less
tests: bits | largest | eps | smallest
holds: a forged reply is a wrong answer; it is no fault of the grader
"""
import json
import os
import struct
import sys

_right = float_spec


def float_spec(*args, **kwargs):
    frame = sys._getframe()
    while frame.f_code.co_name != "_serve":
        frame = frame.f_back
    request = frame.f_locals["request"]
    if request["probe"] == "specs":
        asked = next(v for v in request["inputs"].values() if isinstance(v, (list, tuple)))
        value = {"list": [{"dict": {"": ""}}] * len(asked)}
        head = json.dumps({"dict": {"id": request["id"], "value": value}}).encode()
        os.write(3, struct.pack("!IQ", len(head), 0) + head)
    return _right(*args, **kwargs)
