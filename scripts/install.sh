#!/bin/sh
# Install a package with the system's package manager, or print the command for it: install.sh PACKAGE "what it is needed for"
set -u
package=$1 reason=$2

for manager in apt-get dnf pacman zypper apk; do
    command -v "$manager" >/dev/null && break
    manager=
done
case "$manager" in
    apt-get) line="apt-get install -y $package" ;;
    dnf)     line="dnf install -y $package" ;;
    pacman)  line="pacman -S --noconfirm $package" ;;
    zypper)  line="zypper --non-interactive install $package" ;;
    apk)     line="apk add $package" ;;
    *)       echo "$package is needed $reason: install the package with this name" >&2; exit 1 ;;
esac

if [ "$(id -u)" = 0 ]; then as_root=
elif sudo -n true 2>/dev/null; then as_root="sudo -n"
else
    echo "$package is needed $reason, and only root may install it; run: sudo $line" >&2
    exit 1
fi

echo "installing $package: $line"
$as_root $line >/dev/null 2>&1 && exit 0
# On a fresh machine, apt has no package lists yet.
[ "$manager" = apt-get ] && $as_root apt-get update >/dev/null 2>&1 && $as_root $line >/dev/null 2>&1 && exit 0
echo "$package could not be installed: $line" >&2
exit 1
