"""Deployment on a device with a POSIX shell: its scripts, and how their answers are read.

They travel with every question, hence no comment and no indentation inside; what they do is said above each. Numbers
stay below 2^31 KiB: mksh counts with 32 bits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agents.deployment import Stock

#: A job's folder of no known holder is over after this time.
STALE_MINUTES = 24 * 60
#: How many of its bundles a device names as a base for the next one.
NAMED_BUNDLES = 8

# $1 folder, $2 fencing token of the lease, $3 size cap and $4 reserve in KiB, $5 is 1 when room is all that is wanted;
# on standard input a line "KIB NAME BYTES" for each thing that a job needs, a bundle's without BYTES. No here-document:
# some shells write it to a file, which they cannot do on a full disk.
#
# 1. Folders of jobs whose token is smaller belong to attempts that are over: whatever still runs in them is killed,
#    and they go. So do folders that nothing has touched for a day.
# 2. What is there, a blob with all its bytes, is marked as used; of the rest the line numbers are told, from 0.
# 3. If something is missing or room is wanted, the least recently used blobs and bundles go until it fits, never what
#    is needed now. A bundle's size is noted beside it: to walk through all files of all bundles took longer than the
#    rest of this.
STOCK = r"""cd -- "$1" || exit 1
token=$2 cap=$3 spare=$4 room=$5
for job in jobs/*
do
owner=${job#jobs/}
owner=${owner%%.*}
case $owner in ""|0|*[!0-9]*) continue;; esac
[ "$owner" -lt "$token" ] || continue
ls -l /proc/[0-9]*/cwd 2>/dev/null | while IFS= read -r line
do
case $line in *" -> $PWD/$job"|*" -> $PWD/$job/"*)
line=${line%% -> *}
line=${line##*/proc/}
kill -s KILL "${line%%/*}";;
esac
done
rm -rf -- "$job"
done
[ "$job" = "jobs/*" ] || find jobs -mindepth 1 -maxdepth 1 -mmin +1440 -exec rm -rf -- {} +
need=0 lack=0 at=0 all=$(ls -ln blobs | sed -E "s/([^ ]+ +){4}([0-9]+).* /=\2 /")
set --
while IFS=" " read -r kib name size
do
if [ -e "$name" ] && case $size:$all in :*|*"=$size ${name#*/}"*);; *) false;; esac
then set -- "$@" "$name"
else need=$((need+kib)) lack=$((lack+1))
echo "$at"
fi
at=$((at+1))
done
[ $# = 0 ] || touch -c -- "$@"
if [ $room$lack != 0 ]
then
fits() {
free=$(df -Pk . | sed -n '$s/.* \([0-9][0-9]*\)  *[0-9-][0-9]*%\{0,1\} .*/\1/p')
case $free in ??????????*) free=999999999;; esac
kept=$(du -sk blobs)
kept=${kept%%[!0-9]*}
for name in bundles/*
do
[ -e "$name" ] || continue
k=bundles/.${name#*/}
[ -f "$k" ] && read -r k <"$k"
case $k in ""|*[!0-9]*|?????????*) k=$(du -sk "$name" 2>/dev/null) k=${k%%[!0-9]*};; esac
kept=$((kept+${k:-0}))
done
[ $((kept+need)) -le "$cap" ] && [ "${free:-0}" -ge $((need+spare)) ]
}
ls -dtr blobs/* bundles/* 2>/dev/null | {
fits || while IFS= read -r name
do
for k do [ "$k" != "$name" ] || continue 2; done
case $name in blobs/*|bundles/*) rm -rf -- "$name" "bundles/.${name#*/}";; esac
fits && break
done
echo "room ${free:-0} $kept"
}
command -v tar >/dev/null && echo tar
ls -t bundles | sed -n 's/^/bundle /;1,8p'
fi
echo "end $lack"
"""

# $1 folder, $2 staging folder below jobs, $3 the digest over all its files, $4 digest of the bundle to make, $5 the
# bundle to make it from (may be empty), $6 its size in KiB, $7 set when a tar comes on standard input; then the names
# that the older bundle must lose. Exit 3: no room or no permission; 4: something is not what was sent, and all hashes
# are printed. A shell starts sha256sum: toybox's find would start its own, however slow, and not the first in PATH.
# adbd sends SIGHUP when the line is gone, and writes what it still has of files after that.
_BEGIN = r"""cd -- "$1/jobs" && mkdir -p -- "$2" "$2.sums" "$2.sent" && cd -- "$2" || exit 3
leave() {
cd "$root/jobs" && rm -rf -- "$new" "$new.sent" "$new.sums"
exit "$1"
}
root=$1 new=$2 tree=$3 digest=$4 base=$5 kib=$6 packed=$7
shift 7
trap "sleep 1;leave 3" HUP
if [ "$base" ]
then
cp -Rl "$root/bundles/$base" bundle 2>/dev/null || { rm -rf bundle; cp -Rp "$root/bundles/$base" bundle; } || leave 3
for name do rm -rf -- "bundle/$name"; done
fi
hash_rest() {
find . -type f -exec sh -c 'exec sha256sum "$@"' sh {} + >"../$new.sums/rest"
}
"""
_UNPACK = r"""[ -z "$packed" ] || tar -xmof - || leave 3
hash_rest
"""
# Lines name the files that arrived in the folder $2.sent, each once it is whole. They are hashed while others still
# travel, two at once. "tar" among them is one to unpack at the same time; "rest" says that all the others are in $2.
_ARRIVE = r"""at=0 one= two= rest=
while IFS= read -r name || leave 3
do
case $name in
end) break;;
tar) { tar -xmof "../$new.sent/tar" && hash_rest; } </dev/null & rest=$!;;
rest) hash_rest </dev/null & rest=$!;;
*)
[ -z "$one" ] || wait "$one"
one=$two
(cd "../$new.sent" && exec sha256sum "./$name") </dev/null >"../$new.sums/$at" &
two=$!
at=$((at+1));;
esac
done
if [ "$rest" ]
then wait "$rest" || leave 3
else hash_rest
fi
wait
"""
_CHECK = r"""got=$(LC_ALL=C sort -- "../$new.sums/"* | sha256sum)
if [ "${got%% *}" != "$tree" ]
then
cat "../$new.sums/"*
leave 4
fi
"""
# The sync service gave files the host's time; which was used last, the device's clock tells.
_TAKE = r"""[ ! -d "../$new.sent/bundle" ] || (cd "../$new.sent" && find bundle -type f) | while IFS= read -r name
do mkdir -p -- "${name%/*}" && mv -f -- "../$new.sent/$name" "$name" || exit 1
done || leave 3
touch -c blobs/* "../$new.sent/blobs/"* 2>/dev/null
chmod +t "../$new.sent/blobs/"* 2>/dev/null
[ ! -d "../$new.sent/blobs" ] || mv -f -- "../$new.sent/blobs/"* "$root/blobs/" || leave 3
"""
# What gets its name is marked, by the sticky bit: it may not have reached the storage (see MAKE_FOLDER).
_KEEP = r"""chmod +t blobs/* bundle 2>/dev/null
[ ! -d blobs ] || mv -f -- blobs/* "$root/blobs/" || leave 3
if [ -d bundle ]
then
place=$root/bundles
[ -z "$base" ] || touch -c bundle
[ ! -e "$place/$digest" ] || rm -rf -- "$place/$digest"
echo "$kib" >"$place/.$digest" && mv -- bundle "$place/$digest" || leave 3
fi
leave 0
"""
# $1 folder, $2 staging folder below jobs. Of a deployment that ended early nothing stays: what the device still had on
# its way, in a tar or from the sync service, may come a moment later, so it is looked for until there is no more.
CLEAR = r"""cd -- "$1/jobs" || exit 1
for turn in 1 2 3 4 5 6 7 8 9
do
rm -rf -- "$2" "$2.sent" "$2.sums"
sleep 1
[ -e "$2" ] || [ -e "$2.sent" ] || [ -e "$2.sums" ] || exit 0
done
"""
PLACE = _BEGIN + _UNPACK + _CHECK + _KEEP
PLACE_APART = _BEGIN + _ARRIVE + _CHECK + _TAKE + _KEEP


def read_stock(answer: str, asked: Sequence[str]) -> Stock | None:
    """What STOCK printed about the names ``asked``; None when the answer is not whole."""
    lines = answer.splitlines()
    missing = frozenset(asked[int(line)] for line in lines if re.fullmatch(r"\d{1,6}", line) and int(line) < len(asked))
    if not lines or lines[-1] != f"end {len(missing)}":
        return None
    words = [line.partition(" ") for line in lines]
    room = next((re.fullmatch(r"(\d{1,12}) (\d{1,12})", rest) for kind, _, rest in words if kind == "room"), None)
    if room is None:
        return None if missing else Stock()
    bundles = tuple(rest for kind, _, rest in words if kind == "bundle")[:NAMED_BUNDLES]
    return Stock(missing, int(room[1]) * 1024, int(room[2]) * 1024, bundles, "tar" in lines)


def first_wrong(listing: str, contents: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Of what ``sha256sum`` printed, the first file that is not as sent: its name, the hash there, the hash here."""
    found = dict(re.findall(r"^([0-9a-f]{64})[ *]+\./(.*)$", listing, re.MULTILINE))
    for there, name in ((there, name) for there, name in found.items() if contents.get(name) != there):
        return name, there, contents.get(name, "")
    return None
