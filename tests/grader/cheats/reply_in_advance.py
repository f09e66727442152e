"""Finds the codec and the request on the stack, and sends a digest before it computes.

group: forge a reply
from: pygpubench heap_sig_scan; pygpubench stack_sig_scan
ends: refused
says: NOT_THE_SAME
holds: a reply has no signature to steal; what it commits to has to be shown.
"""

import os
import sys


def frame_with(name):
    frame = sys._getframe()
    while name not in frame.f_locals:
        frame = frame.f_back
    return frame


def product(a, b):
    serve = frame_with("has_begun")
    protocol = serve.f_globals["protocol"]
    request = serve.f_locals["request"]
    forged = protocol.encode({"id": request["id"], "value": b"0" * 32})
    os.write(3, b"".join(bytes(part) for part in forged))
    send = serve.f_globals["_send"]

    def unsent(channel, reply):
        serve.f_globals["_send"] = send

    serve.f_globals["_send"] = unsent
    return a @ b
