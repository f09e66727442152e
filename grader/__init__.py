"""The grader: runs hidden tests against a student's code that it never trusts."""

import os
import tempfile

# torch._dynamo, which torch.optim imports, makes a folder for compiled code, whether anything is compiled or not. It would stay
# behind in the temporary folder; a folder that is there already is not made.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir())

__version__ = "0.6.0"
