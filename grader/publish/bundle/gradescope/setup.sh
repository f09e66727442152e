#!/usr/bin/env bash
# Prepares the container: Python, the packages of requirements.txt, and bubblewrap where it can be had.
# Gradescope runs this once, when the image is built.
set -euo pipefail

source="$(cd "$(dirname "$0")" && pwd)"
rm -f "$source/.ready"
export DEBIAN_FRONTEND=noninteractive

apt() { apt-get -o DPkg::Lock::Timeout=120 -y -qq --no-install-recommends "$@"; }

is_new_enough() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  for name in python3.13 python3.12 python3.11 python3; do
    if command -v "$name" >/dev/null && is_new_enough "$name"; then
      command -v "$name"
      return
    fi
  done
  return 1
}

if ! find_python >/dev/null; then
  apt update
  # The release's own Python; where that is older than 3.11, the newest beside it.
  apt install python3 python3-venv || true
  for version in 3.13 3.12 3.11; do
    find_python >/dev/null || apt install "python$version" "python$version-venv" || true
  done
fi
python="$(find_python)" || { echo "setup.sh: there is no Python 3.11 or later here" >&2; exit 1; }

# The stronger isolation, where the container allows it. Without it the grader uses the other one.
command -v bwrap >/dev/null || { apt update && apt install bubblewrap; } || echo "setup.sh: no bubblewrap" >&2

"$python" -m venv --clear "$source/.venv"
options=(--quiet --disable-pip-version-check --no-cache-dir)
if [ -d "$source/wheels" ]; then options+=(--no-index --find-links "$source/wheels"); fi
if [ -s "$source/index_url" ]; then options+=(--extra-index-url "$(cat "$source/index_url")"); fi
"$source/.venv/bin/python" -m pip install "${options[@]}" -r "$source/requirements.txt"

# A submission's user may pass through to Python's packages, and reads nothing of the course.
chmod 755 "$source"
chmod -R u+rwX,go-rwx "$source/grader" "$source/course"
chmod -R go+rX "$source/.venv"

# The grader starts, and says what isolates a submission here. Where it runs may allow more or less.
cd "$source"
.venv/bin/python -m grader --version
.venv/bin/python -m grader isolation --course course || echo "setup.sh: nothing isolates a submission here" >&2
touch "$source/.ready"
