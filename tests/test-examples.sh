#!/bin/sh
# SPDX-License-Identifier: MIT
# Q500 Q495: two processes share the buffers of one inference, and nothing is copied;
# a producer and a consumer keep several inferences in flight. Both programs
# give the recorded answers; where something fails they say what, and end.
# Python's digits.py is the twin of digits.c, which test-digits.sh looks at.
# async_digits.py awaits a thousand requests in one thread (Q380); torch_bridge.py
# runs where torch is.
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
# What the buffer is made of may differ from run to run: huge pages run out.
# Everything else two programs print must be the same.
same() { # file, file
	for file in "$@"; do
		sed 's/^input buffer: hugepage$/input buffer: locked/' "$file" >"$file.cmp"
	done
	cmp -s "$1.cmp" "$2.cmp"
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

if [ -x "$examples/tensor" ]; then
	call tensor
	test $status -eq 0 && gives_recorded
	check $? "tensor: a DLPack struct in, the NPU's memory out, every recorded answer"
	grep -qx 'the images were given back' "$work/out"
	check $? "tensor: the foreign array was given back"
	# what a failed run holds ends with it
	ASAN_OPTIONS=detect_leaks=0 QBRUNTIME_SOFT_FAULT=error:job=3 call tensor
	test $status -eq 1 && test "$(grep -cE '^[0-9] [0-9]$' "$work/out")" -eq 2 &&
		grep -q 'injected fault' "$work/err"
	check $? "tensor: a failed job is told"
else
	count=$((count + 1))
	echo "ok $count - tensor # SKIP no dlpack/dlpack.h"
fi

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

# CT12: what the C program says the Python program says too, outputs included.
PYTHON=${PYTHON:-/usr/bin/python3}
preload=$(sh "$top_srcdir/tests/preload" "$top_builddir") || exit 1
call_python() { # program and arguments
	program=$1
	shift
	LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 PYTHONDONTWRITEBYTECODE=1 \
		PYTHONPATH=$top_builddir/python/stage \
		"$PYTHON" "$top_srcdir/examples/$program.py" "$@" >"$work/out" 2>"$work/err"
	status=$?
}
if ! grep -q '^pkgpyexec_DATA' "$top_builddir/python/Makefile"; then
	skip="configured without Python"
elif ! "$PYTHON" -c 'import numpy' 2>/dev/null; then
	skip="$PYTHON has no NumPy"
else
	skip=
fi
if [ -n "$skip" ]; then
	count=$((count + 1))
	echo "ok $count - digits.py # SKIP $skip"
else
	call digits --digest
	cp "$work/out" "$work/c"
	call_python digits --digest
	test $status -eq 0 && same "$work/c" "$work/out" && gives_recorded
	check $? "digits.py: prints what digits prints, every recorded answer"
	test "$(grep -cE '^sha256: [0-9a-f]{64}$' "$work/out")" -eq 16
	check $? "digits.py: the digest of each output"
	grep -qx 'copied bytes: 0' "$work/out"
	check $? "digits.py: no byte was copied"
	call digits
	grep -v '^sha256: ' "$work/c" >"$work/short"
	test "$(wc -l <"$work/out")" -eq 21 && same "$work/short" "$work/out"
	check $? "digits: without --digest all but the digests"
	call_python digits /nonexistent.qbm
	test $status -eq 1 && grep -q '^digits.py: .*/nonexistent.qbm' "$work/err"
	check $? "digits.py: a missing model is named"
	call_python digits "$top_srcdir/tests/data/golden/copy64.qbm"
	test $status -eq 1 && grep -q '^digits.py: not a model' "$work/err"
	check $? "digits.py: a model that is no digits model is refused"
	call_python async_digits
	test $status -eq 0 && test "$(cat "$work/out")" = '1000 of 1000 answers as recorded'
	check $? "async_digits.py: a thousand requests have the recorded answers"
	QBRUNTIME_SOFT_FAULT=error:job=3 call_python async_digits
	test $status -eq 1 && grep -q 'injected fault' "$work/err" && test "$(wc -l <"$work/err")" -eq 1
	check $? "async_digits.py: when one fails it says why, and ends"
	call_python async_digits /nonexistent.qbm
	test $status -eq 1 && grep -q '^async_digits: .*/nonexistent.qbm' "$work/err"
	check $? "async_digits.py: a missing model is named"
fi

# PM09: both ends of the model are torch tensors
[ -n "$skip" ] || "$PYTHON" -c 'import torch' 2>/dev/null || skip="$PYTHON has no torch"
if [ -n "$skip" ]; then
	count=$((count + 1))
	echo "ok $count - torch_bridge.py # SKIP $skip"
else
	call_python torch_bridge
	test $status -eq 0 && gives_recorded
	check $? "torch_bridge.py: every recorded answer"
	grep -qx 'copied bytes: 0' "$work/out"
	check $? "torch_bridge.py: no byte was copied"
	QBRUNTIME_SOFT_FAULT=error:job=3 call_python torch_bridge
	test $status -eq 1 && grep -q '^torch_bridge.py: .*injected fault' "$work/err"
	check $? "torch_bridge.py: when one fails it says why, and ends"
	call_python torch_bridge /nonexistent.qbm
	test $status -eq 1 && grep -q '^torch_bridge.py: .*/nonexistent.qbm' "$work/err"
	check $? "torch_bridge.py: a missing model is named"
	call_python torch_bridge "$top_srcdir/tests/data/golden/copy64.qbm"
	test $status -eq 1 && grep -q '^torch_bridge.py: not a model' "$work/err"
	check $? "torch_bridge.py: a model that is no digits model is refused"
fi

# The digest of the C programs, around the ends of blocks.
cat >"$work/sha256.c" <<'EOF'
#include "sha256.h"
int main(void)
{
	unsigned char data[256];
	char text[65];

	sha256_text(data, fread(data, 1, sizeof(data), stdin), text);
	return puts(text) < 0;
}
EOF
${CC:-cc} -std=c11 -Wall -Wextra -I"$top_srcdir/examples" "$work/sha256.c" -o "$work/sha256" >"$work/out" 2>"$work/err" &&
	for size in 0 1 40 55 56 63 64 65 119 120 128 200; do
		head -c $size "$top_srcdir/examples/digits.qbm" >"$work/data"
		"$work/sha256" <"$work/data" | cut -d' ' -f1
		sha256sum <"$work/data" | cut -d' ' -f1
	done >"$work/out" && test "$(wc -l <"$work/out")" -eq 24 && test "$(uniq <"$work/out" | wc -l)" -eq 12
check $? "digits: its digest is SHA-256"
echo "1..$count"
exit $failed
