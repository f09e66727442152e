"""Raises an exception whose text, type name and location contain terminal escapes, HTML and template markup.

group: attack the reader
target: tensor_memory
tests: counts_what_a_view_shows | is_the_whole_storage
status: failed
holds: control characters are escaped, and markup is shown as text.
"""

EVIL = (
    "\x1b[2J\x1b]0;owned\x07\x1b]52;c;ZWNobyBvd25lZA==\x07\r\x08\x9b31m\u202egnp.exe\u2066\u200b\ufeff\ud800\x00"
    "<script>alert(1)</script><img src=x onerror=alert(1)>]]>&amp;{{ 7*7 }}{% raw %}[/red][link=file:///etc/passwd]x[/link]=cmd|'/c calc'!A1"
)


def tensor_bytes(x):
    raise type(EVIL.replace("\0", "").replace("\ud800", ""), (Exception,), {})(EVIL)


def storage_bytes(x):
    error = KeyError(EVIL)
    error.add_note(EVIL)
    raise error


code = compile(
    "def unique_bytes(tensors):\n    raise ValueError('x')\n",
    "/tmp/submission/assignment/\x1b[2J\u202e.py",
    "exec",
)
exec(code)
unique_bytes.__code__ = unique_bytes.__code__.replace(co_name=EVIL[:9], co_qualname=EVIL[:9])
