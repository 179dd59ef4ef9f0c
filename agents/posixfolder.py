"""Which folder of a device with a POSIX shell is Lockstep's: the script that finds it."""

from __future__ import annotations

# $1 so many folders were named by somebody; the others are our own choice and must belong to us, as must a link that
# leads there: a folder for everybody's temporary files may hold what somebody else prepared. Then the folders, best
# first. Prints the first in which a file can be executed. One that is made here is ours alone: adbd's umask is 0.
#
# Blobs and bundles are marked, by the sticky bit, until they have certainly reached the storage. Nobody waits for that:
# the next connection begins it, and takes the mark off. What still has it after a reboot goes, as a device that crashed
# may have emptied it, or left zeros in it.
MAKE_FOLDER = """
named=$1; shift
mine() {
    owner=$(ls -dn -- "$1" | { read -r _ _ uid _; echo "$uid"; })  # busybox has no [ -O ]
    [ "$owner" = "$(id -u)" ] || { echo "it belongs to somebody else"; return 1; }
}
attempt() (
    umask 022
    case $1 in /*) entry=$1 ;; *) entry=$PWD/$1 ;; esac
    mkdir -p -m 700 -- "$1" && cd -- "$1" || exit 1
    [ "$named" -gt 0 ] || { mine "$entry" && mine . && chmod 700 .; } || exit 1
    mkdir -p blobs bundles jobs || exit 1
    [ -w jobs ] || { echo "not writable"; exit 1; }
    # It stays: on a full disk no other could be made. It names no interpreter: the shell is, where it may run
    [ -x .executes ] || { : >.executes && chmod 755 .executes; } || exit 1
    ./.executes 2>/dev/null || { echo "not executable here"; exit 1; }
    pwd -P
)
settle() {
    cd -- "$1" && now= boot= new=$(find blobs bundles -maxdepth 1 -perm -1000) || return
    read -r now </proc/sys/kernel/random/boot_id
    [ ! -e .boot ] || read -r boot <.boot
    if [ "$now" != "$boot" ]; then
        rm -rf -- $new
        echo "$now" >.boot
    elif [ "$new" ]; then
        # In a session of its own, and no shell's child that kept copies of what the link waits for
        setsid sh -c 'sync; chmod -t "$@"' lockstep $new </dev/null >/dev/null 2>&1 &
    fi
}
for folder; do
    root=$(attempt "$folder" 2>&1) && { printf '%s\\n' "$root"; settle "$root"; exit 0; }
    printf '%s (%s)\\n' "$folder" "$root" >&2
    named=$((named - 1))
done
exit 1
"""
