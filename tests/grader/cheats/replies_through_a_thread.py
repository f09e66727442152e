"""Puts a thread between itself and the channel, which answers with the last digest at once.

group: forge a reply
from: pygpubench pipe_interpose; pygpubench file_struct; pygpubench seccomp_trap; pygpubench thread_fd
ends: refused
says: NOT_THE_SAME
holds: whatever stands between the code and the channel, a digest has to fit the output.
"""

import sys

last = []


def frame_with(name):
    frame = sys._getframe()
    while name not in frame.f_locals:
        frame = frame.f_back
    return frame


serve = frame_with("has_begun")
send = serve.f_globals["_send"]


def rewritten(channel, reply):
    if type(reply.get("value")) is bytes:
        last.append(reply["value"])
        reply = {**reply, "value": last[0]}
    send(channel, reply)


serve.f_globals["_send"] = rewritten


def product(a, b):
    return a @ b
