"""Return an int that no float can hold.

group: lie about types
target: lr_schedule
status: failed
holds: an answer that a test cannot convert is wrong; it is no fault of the grader
"""


def lr_cosine_schedule(*args, **kwargs):
    return 10**2000
