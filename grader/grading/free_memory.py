"""Free what earlier submissions have left in the memory of a process that grades many.

Exceptions, tracebacks and tests refer to each other in circles, and only the garbage collector
frees what hangs on a circle, such as the answers of a submission. The grader's process collects
garbage rarely, because its imports create many objects (`grader.OBJECTS_BETWEEN_COLLECTIONS`). So
it also collects before each grade. Modules and solutions stay anyway, so they are frozen: the
collector skips them.
"""

import gc

_has_frozen = False  # since the last call of `collect`; then something of a grade is frozen too
_has_graded = False
_keeps_frozen = False  # whether anything is frozen; gc.get_freeze_count would take 20 ms


def freeze() -> None:
    """Exempt everything that is alive from garbage collection until the next grade."""
    global _has_frozen
    _has_frozen = True
    gc.freeze()


def collect() -> None:
    """Free what earlier grades have left, and freeze what is alive between two grades.

    The first grade of a process has nothing to free. In the second this takes 0.1 s, and then
    milliseconds, unless further solutions have been loaded.
    """
    global _has_frozen, _has_graded, _keeps_frozen
    if _has_frozen:
        gc.unfreeze()
    if _has_graded:
        gc.collect()
    if _has_frozen or (_has_graded and not _keeps_frozen):
        gc.freeze()
    _has_frozen, _has_graded, _keeps_frozen = False, True, _has_frozen or _has_graded
