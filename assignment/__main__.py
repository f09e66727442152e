"""`python -m assignment` shows your progress; `python -m assignment submit` makes your zip.

Progress is measured by the public tests. The zip is ready to hand in. `python -m assignment fly`
trains a small language model that is made of your modules.
"""

import sys
from pathlib import Path

from kit import progress

if __name__ == "__main__":
    root, arguments = Path(__file__).absolute().parents[1], sys.argv[1:]
    if arguments[:1] == ["fly"]:
        try:
            from flight import command
        except KeyboardInterrupt:
            sys.exit(130)

        sys.exit(command.main(root, arguments[1:]))
    others = {"fly": "train a small language model made of your modules and of given ones"}
    sys.exit(progress.main(root, arguments, others))
