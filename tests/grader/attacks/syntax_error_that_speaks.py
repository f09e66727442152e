"""A module whose syntax error quotes escapes and a path of the host.

group: attack the reader
target: tensor_memory
kind: source
status: failed
holds: the message of the parser is printed like any other text.
"""


def source() -> bytes:
    return "x = \x1b[2J \u202e <script> ".encode() + b"\n\xff\xfe"
