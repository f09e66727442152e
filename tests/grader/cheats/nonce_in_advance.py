"""Looks into the channel for the next nonce while the clock stands still.

group: read a secret
takes: 1
ends: passed
holds: the next nonce is drawn and sent when the clock starts, so the channel is empty before.
"""

import os
import socket
import sys

timed = sys.modules["kit.timed"]
kept, empty = timed.kept, timed.empty


def early(function):
    def looking(*args, **kwargs):
        answer = function(*args, **kwargs)
        with socket.socket(fileno=os.dup(3)) as channel:
            try:
                seen = channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                seen = b""
        if seen:
            raise RuntimeError("BREACH: a request before the answer to the last one")
        return answer

    return looking


timed.kept, timed.empty = early(kept), early(empty)


def product(a, b):
    return a @ b
