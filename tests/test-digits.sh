#!/bin/sh
# SPDX-License-Identifier: MIT
# MO05, CT06: the example reads the 16 held-out digits through pinned memory,
# gives every recorded answer, at least 15 right, and copies nothing.
set -u
out=$("${top_builddir:?}/examples/digits") || {
	echo "not ok 1 - digits runs"
	echo "1..1"
	exit 1
}
echo "ok 1 - digits runs"
failed=0
check() { # number, words, status
	if [ "$3" -eq 0 ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		echo "$out" | sed 's/^/# /'
		failed=1
	fi
}
answers=$(grep -v '^#' "${top_srcdir:?}/examples/digits-16.txt" | awk '{ print $2, $3 }')
printed=$(echo "$out" | grep -E '^[0-9] [0-9]$')
test "$answers" = "$printed"
check 2 "every recorded answer is given" $?
test "$(echo "$printed" | awk '$1 == $2' | wc -l)" -ge 15
check 3 "at least 15 of 16 are right" $?
echo "$out" | grep -qx 'kind: software'
check 4 "the device says that it is software" $?
echo "$out" | grep -qx 'copied bytes: 0'
check 5 "no byte was copied" $?
"$top_builddir/examples/digits" /nonexistent.qbm >/dev/null 2>"$top_builddir/tests/digits.err"
status=$?
test $status -eq 1 && grep -q nonexistent "$top_builddir/tests/digits.err"
check 6 "a missing model ends with status 1 and a sentence that names it" $?
"$top_builddir/examples/digits" "$top_srcdir/tests/data/golden/copy64.qbm" >/dev/null 2>&1
test $? -eq 1
check 7 "a model that is no digits model ends with status 1" $?
rm -f "$top_builddir/tests/digits.err"
echo "1..7"
exit $failed
