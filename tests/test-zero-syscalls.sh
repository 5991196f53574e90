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
# A lock that a rival holds costs a call too, so the best of three runs counts.
best=
for run in 1 2 3; do
	strace -o "$work/busy" "$loop" "$model" "$rival" && between "$work/busy" >"$work/calls"
	status=$?
	num=$(wc -l <"$work/calls")
	[ -z "$best" ] || [ "$num" -lt "$best" ] && best=$num
	[ $status -eq 0 ] && [ "$num" -le 1000 ] && break
done
verdict 2 "1,000 calls that sleep make at most one each ($best, run $run)" $((status == 0 && best <= 1000))
echo "1..2"
exit $failed
