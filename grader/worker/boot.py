"""The first code inside the sandbox: drop all privileges, do slow imports, become the zygote.

    python boot.py SETUP

SETUP is JSON, written by `sandbox.levels.bubblewrap`, `sandbox.levels.landlock` or `sandbox.box`:

    control    the descriptor of the zygote's socket
    user       the user id to switch to; 0 keeps the current one
    runtime    the folder of the worker's own code
    paths      the folders that a submission may import from: the packages and the probes
    filter     the system calls that are denied to a test but not to the zygote; absent without
               isolation
    preload    the modules to import before the first test, besides the probes
    own_user   what `isolation_walls.OwnUser` needs; absent for the other kinds of isolation
"""

import json
import sys


def main() -> None:
    setup = json.loads(sys.argv[1])
    runtime = setup["runtime"]
    sys.path += [*setup["paths"], runtime]
    from grader.worker import isolation_walls

    wall = isolation_walls.of_this_process(setup)
    wall.start(setup["user"])
    from grader.worker import zygote

    try:
        with wall.as_student():
            zygote.import_slow_packages(setup["preload"])
    except zygote.NotPreloaded as e:
        zygote.refuse(setup["control"], e)
        return
    forget_runtime(runtime)
    zygote.serve(setup["control"], wall)


def forget_runtime(runtime: str) -> None:
    """Make the worker's own code impossible to import by name, so that `import grader` fails.

    Loaded code keeps working, because its functions hold references to their globals.
    """
    sys.path.remove(runtime)
    for name in [m for m in sys.modules if m == "grader" or m.startswith("grader.")]:
        del sys.modules[name]


if __name__ == "__main__":
    main()
