#!/bin/sh
# Install bubblewrap through the system's package manager, or say which line does it.
set -u

for manager in apt-get dnf pacman zypper apk; do
    command -v "$manager" >/dev/null && break
    manager=
done
case "$manager" in
    apt-get) line="apt-get install -y bubblewrap" ;;
    dnf)     line="dnf install -y bubblewrap" ;;
    pacman)  line="pacman -S --noconfirm bubblewrap" ;;
    zypper)  line="zypper --non-interactive install bubblewrap" ;;
    apk)     line="apk add bubblewrap" ;;
    *)       echo "bubblewrap is needed to isolate submissions: install the package of that name" >&2; exit 1 ;;
esac

if [ "$(id -u)" = 0 ]; then as_root=
elif sudo -n true 2>/dev/null; then as_root="sudo -n"
else
    echo "bubblewrap is needed to isolate submissions, and only root may install it: sudo $line" >&2
    exit 1
fi

echo "installing bubblewrap: $line"
$as_root $line >/dev/null 2>&1 && exit 0
# A fresh machine has no list of packages yet.
[ "$manager" = apt-get ] && $as_root apt-get update >/dev/null 2>&1 && $as_root $line >/dev/null 2>&1 && exit 0
echo "bubblewrap could not be installed: $line" >&2
exit 1
