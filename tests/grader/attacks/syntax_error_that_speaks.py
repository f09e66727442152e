"""A module whose syntax error quotes terminal escapes, a text direction mark and markup.

group: attack the reader
target: tensor_memory
kind: source
status: failed
holds: the parser's message is escaped like any other text.
"""


def source() -> bytes:
    return "x = \x1b[2J \u202e <script> ".encode() + b"\n\xff\xfe"
