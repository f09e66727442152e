"""Answers with a value that the test passes on as an input, and that is too large for a request.

group: forge the verdict
target: optimizers
reference: before
tests: goes_on_from_a_state_dict
status: failed
earns: less
holds: a test that cannot send what it was given fails; it is no fault of the grader.
"""

import sys

_frame = sys._getframe()
while _frame.f_code.co_name != "_serve":
    _frame = _frame.f_back
_globals = _frame.f_globals


class _Many:
    """What a reply holds and, as it is written anew, no request does."""


def _many(encoder, value, depth):
    return {"list": [{"tensor": [0, encoder.blob(bytes(8)), 1]}] * 76_000}


_globals["protocol"].WRITERS[_Many] = _many
_send = _globals["_send"]


def _send_more(channel, reply):
    value = reply.get("value")
    asked = sys._getframe(1).f_locals["request"].get("probe")
    if asked == "alone" and type(value) is list and len(value) == 5 and type(value[2]) is list:
        value[2] = _Many()
    _send(channel, reply)


_globals["_send"] = _send_more


class SGD:
    """Whatever is wrong."""
