#!/usr/bin/env bash
# Prepares the container: Python, the packages of requirements.txt, and bubblewrap if it is available.
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
  # The distribution's default Python or, if it is older than 3.11, the newest other version.
  apt install python3 python3-venv || true
  for version in 3.13 3.12 3.11; do
    find_python >/dev/null || apt install "python$version" "python$version-venv" || true
  done
fi
python="$(find_python)" || { echo "setup.sh: found no Python 3.11 or later" >&2; exit 1; }

# bubblewrap is the stronger isolation, if the container allows it; otherwise the grader uses Landlock.
command -v bwrap >/dev/null || { apt update && apt install bubblewrap; } || echo "setup.sh: no bubblewrap" >&2

# The tools of the course have the names of their packages; torch's compiler also needs Python's headers.
for tool in $(sed -n 's/^tools *= *\[\(.*\)\].*/\1/p' "$source/course/assignment/problems.toml" | tr -d '",'); do
  command -v "$tool" >/dev/null || { apt update && apt install "$tool" python3-dev; } || echo "setup.sh: no $tool" >&2
done

"$python" -m venv --clear "$source/.venv"
options=(--quiet --disable-pip-version-check --no-cache-dir)
if [ -d "$source/wheels" ]; then options+=(--no-index --find-links "$source/wheels"); fi
if [ -s "$source/index_url" ]; then options+=(--extra-index-url "$(cat "$source/index_url")"); fi
"$source/.venv/bin/python" -m pip install "${options[@]}" -r "$source/requirements.txt"

# The user of a submission's processes can read Python's packages, but not the grader or the course.
chmod 755 "$source"
chmod -R u+rwX,go-rwx "$source/grader" "$source/kit" "$source/course"
chmod -R go+rX "$source/.venv"

# Check that the grader starts, and list the isolation levels. The container that grades may differ.
cd "$source"
.venv/bin/python -m grader --version
.venv/bin/python -m grader isolation --course course || echo "setup.sh: no isolation level works in this container" >&2
touch "$source/.ready"
