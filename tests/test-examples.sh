#!/bin/sh
# SPDX-License-Identifier: MIT
# Q500 Q495: two processes share the buffers of one inference, and nothing is copied;
# a producer and a consumer keep several inferences in flight. Both programs
# give the recorded answers; where something fails they say what, and end.
set -u
examples=${top_builddir:?}/examples
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0
failed=0
check() { # status, words
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		sed 's/^/# /' "$work/out" "$work/err"
		failed=1
	fi
}
call() { # program and arguments; its exit status in $status
	program=$1
	shift
	"$examples/$program" "$@" >"$work/out" 2>"$work/err"
	status=$?
}
grep -v '^#' "${top_srcdir:?}/examples/digits-16.txt" | awk '{ print $2, $3 }' >"$work/recorded"
gives_recorded() {
	grep -E '^[0-9] [0-9]$' "$work/out" | cmp -s - "$work/recorded"
}

call zero-copy
test $status -eq 0 && gives_recorded
check $? "zero-copy: the other process reads every recorded answer"
grep -qx 'bytes that the owner copied: 0' "$work/out"
check $? "zero-copy: no byte was copied"
QBRUNTIME_SOFT_FAULT=error:job=3 call zero-copy
test $status -eq 1 && test "$(grep -cE '^[0-9] [0-9]$' "$work/out")" -eq 2 &&
	grep -q 'injected fault' "$work/err" && grep -q 'the owner has ended' "$work/err"
check $? "zero-copy: when the owner fails the other one ends too"

call pipeline
test $status -eq 0 && gives_recorded
check $? "pipeline: every recorded answer, in order"
grep -qx 'most in flight: 4 of 4' "$work/out"
check $? "pipeline: every pair is in flight at once"
QBRUNTIME_SOFT_FAULT=error:job=3 call pipeline
test $status -eq 1 && test "$(grep -cE '^[0-9] [0-9]$' "$work/out")" -eq 15 &&
	test "$(grep -c 'injected fault' "$work/err")" -eq 1
check $? "pipeline: a job that fails costs its picture, not the others"

for program in zero-copy pipeline; do
	call $program /nonexistent.qbm
	test $status -eq 1 && grep -q '/nonexistent.qbm' "$work/err"
	check $? "$program: a missing model is named"
	call $program "$top_srcdir/tests/data/golden/copy64.qbm"
	test $status -eq 1
	check $? "$program: a model that is no digits model is refused"
done
echo "1..$count"
exit $failed
