#!/bin/sh
# SPDX-License-Identifier: MIT
# Layers (SM1), doors (SM2), lengths (SM3) and "one test program per unit"
# (ST1), by reading the sources. Usage: test-layers.sh [ROOT]; TAP on stdout.
set -u
root=${1:-${top_srcdir:-$(dirname "$0")/..}}
cd "$root" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0
failed=0

# verdict NAME FILE: the test holds when FILE, the list of offences, is empty.
verdict() {
	count=$((count + 1))
	if [ -s "$2" ]; then
		echo "not ok $count - $1"
		sed 's/^/# /' "$2"
		failed=1
	else
		echo "ok $count - $1"
	fi
}

# Every #include "..." of lib/ against layers.txt.
awk '
FILENAME ~ /layers\.txt$/ {
	sub(/#.*/, "")
	if (!NF) next
	n = split($0, half, ":")
	if (n != 2) { print "layers.txt: no colon: " $0; next }
	m = split(half[1], names, " ")
	for (i = 1; i <= m; i++) { unit[names[i]] = names[1]; allow[names[i]] = " " half[2] " " }
	next
}
FNR == 1 {
	file = FILENAME; sub(/.*\//, "", file); stem = file; sub(/\.[ch]$/, "", stem)
	if (!(stem in unit)) { print FILENAME ": the unit " stem " is not in layers.txt" }
}
/^#[ \t]*include[ \t]+"/ {
	if (!(stem in unit)) next
	split($0, q, "\""); h = q[2]
	if (h == "config.h") next
	if (h ~ /^isa\//) { want = "isa" }
	else if (h ~ /^uapi\//) { want = "seam" }
	else if (h ~ /^(soft|device|module)\//) { print FILENAME ": includes " h " from below the seam"; next }
	else { want = h; sub(/\.h$/, "", want) }
	have = allow[stem]
	if ((want in unit) && unit[want] == unit[stem]) next
	if (want ~ /^(util|fd|status|log|env|counters|trace)$/ && stem !~ /^(util|fd|counters|status|env|log|trace|trace-device|trace-line|version)$/) next
	if (want == "kmd" && index(have, " seam ")) next
	if (index(have, " " want " ")) next
	print FILENAME ": " unit[stem] " may not include " h
}
' tests/layers.txt lib/*.[ch] >"$work/layers" 2>&1
verdict "lib includes downwards only" "$work/layers"

# Doors: what may stand in these files only.
: >"$work/doors"
door() { # words, files that may, files looked at
	pattern=$1; may=$2; shift 2
	grep -nE "$pattern" "$@" /dev/null 2>/dev/null | grep -vE "^($may):" >>"$work/doors"
}
sources=$(find lib kmod-shim -name '*.[ch]' | sort)
# shellcheck disable=SC2086
{
door '\bdlopen *\(' 'lib/cuda\.c|kmod-shim/device/kernels\.c' $sources
door '\b(secure_)?getenv *\(' 'lib/env\.c' $sources
door '\b(drmIoctl|drmOpen[A-Za-z]*|drmGet[A-Z][A-Za-z0-9]*) *\(' 'lib/kmd-drm\.c' $sources
door '(^|[^>._[:alnum:]])(ioctl|ppoll) *\(' 'lib/kmd-drm\.c|kmod-shim/soft/[a-z-]+\.c' $sources
# what oopses a kernel on an accel node, and what nobody needs
door '\bdrmGet(Busid|Unique|Client|Magic)\b|DRM_IOCTL_GET_(UNIQUE|CLIENT|MAGIC)' 'nobody' $sources
door '\b(printf|puts|fprintf|perror|exit|abort) *\(' 'kmod-shim/device/qbnpu-device\.c' $sources
door '\bpthread_create *\(' 'lib/retire\.c|lib/stream-host\.c|kmod-shim/device/core(-[a-z]+)?\.c|kmod-shim/soft/soft-sync\.c' $sources
door '\bPy[A-Z][A-Za-z]*_' 'tools/qbcompile/_isa\.c' $sources
door '\bsetenv *\(' 'nobody' $sources
}
verdict "system calls, variables, plugins, threads and words have one door each" "$work/doors"

# Files up to 500 lines, but tables, contract headers and the validator.
: >"$work/lengths"
find include lib kmod-shim python tools examples tests -name '*.[ch]' -o -name '*.py' | sort |
while read -r f; do
	limit=500
	case $f in
	include/qbruntime/qbrt.h | kmod-shim/uapi/qbnpu_drm.h | kmod-shim/isa/isa.h) continue ;;
	tests/layout-*.h) continue ;;
	kmod-shim/isa/validate.c) limit=850 ;;
	esac
	lines=$(wc -l <"$f")
	[ "$lines" -le "$limit" ] || echo "$f: $lines lines, at most $limit" >>"$work/lengths"
done
verdict "no file is longer than its limit" "$work/lengths"

# Functions up to 60 lines: from a line that ends a head with { in column 0.
find lib kmod-shim python/src -name '*.c' | sort | xargs awk '
FNR == 1 { start = 0 }
/^\{/ { start = FNR }
/^\}/ { if (start && FNR - start + 1 > 62) print FILENAME ":" start ": function body of " FNR - start - 1 " lines, at most 60"; start = 0 }
' >"$work/functions"
verdict "no function is longer than 60 lines" "$work/functions"

# One test program per unit.
: >"$work/tests"
for f in lib/*.c kmod-shim/isa/*.c kmod-shim/soft/*.c kmod-shim/device/*.c kmod-shim/device/kernels/*.c; do
	[ -e "$f" ] || continue
	unit=$(basename "$f" .c)
	while :; do
		[ -e "tests/check-$unit.c" ] && break
		case $unit in
		pinned-*) [ -e tests/check-pinned-memory.c ] && break ;;
		soft | soft-*) [ -e tests/check-kmd.c ] && break ;;
		kmd) [ -e tests/check-kmd.c ] && break ;;
		counters) [ -e tests/check-util.c ] && break ;;
		esac
		case $unit in
		*-*) unit=${unit%-*} ;;
		*) echo "$f: no tests/check-$unit.c" >>"$work/tests"; break ;;
		esac
	done
done
verdict "each unit has a test program" "$work/tests"

# SM6: soft/ and module/ mirror each other, once there is a module.
: >"$work/twins"
if [ -d kmod-shim/module ]; then
	for pair in soft-bo:qbnpu_bo soft-program:qbnpu_program soft-queue:qbnpu_queue \
		soft-query:qbnpu_query soft-submit:qbnpu_job soft:qbnpu_drv; do
		[ -e "kmod-shim/soft/${pair%:*}.c" ] && [ -e "kmod-shim/module/${pair#*:}.c" ] ||
			echo "no pair $pair" >>"$work/twins"
	done
else
	for f in soft soft-bo soft-program soft-queue soft-query soft-submit; do
		[ -e "kmod-shim/soft/$f.c" ] || echo "kmod-shim/soft/$f.c is missing" >>"$work/twins"
	done
fi
verdict "soft has the files that a module mirrors" "$work/twins"

echo "1..$count"
exit $failed
