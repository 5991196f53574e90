#!/bin/sh
# SPDX-License-Identifier: MIT
# Q483, K081, P134: a call that runs inline makes no system call; one that
# sleeps makes at most one. strace sees the main thread alone, between the two
# markers of infer-loop.
set -u
loop=${top_builddir:?}/tests/infer-loop
model=${top_srcdir:?}/tests/data/golden/copy64.qbm
rival=$top_srcdir/examples/digits.qbm
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

if ! strace -o "$work/probe" true 2>/dev/null; then
	echo "1..0 # SKIP strace is not here, or may not trace"
	exit 0
fi
if grep -q '^QBRT_CFLAGS = .*-fsanitize' "$top_builddir/lib/Makefile"; then
	echo "1..0 # SKIP a sanitizer makes system calls of its own"
	exit 0
fi

# Lines between the first and the second getppid.
between() {
	awk '/^getppid\(/ { on = !on; markers++; next } on { print } END { exit markers != 2 }' "$1"
}

failed=0
verdict() { # number, words, condition
	if [ "$3" -eq 1 ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		sort "$work/calls" | cut -d'(' -f1 | uniq -c | sed 's/^/# /'
		failed=1
	fi
}

QBRUNTIME_SOFT_BACKEND=ref
export QBRUNTIME_SOFT_BACKEND

strace -o "$work/inline" "$loop" "$model" && between "$work/inline" >"$work/calls"
status=$?
num=$(wc -l <"$work/calls")
verdict 1 "1,000 calls inline make no system call" $((status == 0 && num == 0))

QBRUNTIME_SOFT_DEVICES=regulus
export QBRUNTIME_SOFT_DEVICES
# Calls that made one system call, and those that made more: a lock that a
# rival holds costs one too, so one in twenty may. The best of five runs counts,
# and one in which calls did sleep.
slept=0
more=0
for run in 1 2 3 4 5; do
	strace -o "$work/busy" "$loop" "$model" "$rival" && between "$work/busy" >"$work/calls" || break
	counts=$(awk '/^getuid\(/ { if (n) slept++; if (n > 1) more++; n = 0; next } { n++ } END { print slept + 0, more + 0 }' "$work/calls")
	slept=${counts% *}
	more=${counts#* }
	[ "$slept" -ge 20 ] && [ $((more * 20)) -le "$slept" ] && break
done
if [ "$slept" -lt 20 ]; then
	echo "ok 2 - calls that sleep make one system call each # SKIP only $slept of 1,000 calls found a busy core"
else
	verdict 2 "calls that sleep make one system call each ($slept slept, $more made more, run $run)" $((more * 20 <= slept))
fi
echo "1..2"
exit $failed
