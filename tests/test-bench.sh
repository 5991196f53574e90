#!/bin/sh
# SPDX-License-Identifier: MIT
# Every program of tests/bench/ works: one call of each thing that it
# measures, and no time is looked at. Usage: test-bench.sh; TAP on stdout.
set -u
top=${top_srcdir:?}
build=${top_builddir:?}/tests/bench
PYTHON=${PYTHON:-/usr/bin/python3}
count=0
failed=0

# PoCL and its LLVM keep what they allocated, and Python does.
ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
export ASAN_OPTIONS
claim() { # WORDS COMMAND...; its output is in smoke.log
	words=$1
	shift
	count=$((count + 1))
	if "$@" >"$build/smoke.log" 2>&1; then
		echo "ok $count - $words"
		return 0
	fi
	echo "not ok $count - $words"
	sed 's/^/# /' "$build/smoke.log"
	failed=1
	return 1
}
smoke() { # NAME COMMAND...
	name=$1
	shift
	if claim "$name does what it measures" "$@" --smoke; then
		grep 'not_measured: ' "$build/smoke.log" | grep -v 'one call each' | sed 's/^/# /'
	fi
}
limits() { # NAME COMMAND...
	name=$1
	shift
	if claim "$name finds nothing above its limit" "$@"; then
		sed 's/^/# /' "$build/smoke.log"
	fi
}

for program in "$build"/bench-*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	smoke "$(basename "$program")" "$program"
done
for program in count-steady count-memory; do
	[ -x "$build/$program" ] || continue
	limits "$program" "$build/$program"
done
if [ $count -eq 0 ]; then
	echo "1..0 # SKIP no program was built: json-c or Check is missing"
	exit 0
fi

python() { # PROGRAM [OPTION]; a sanitizer's runtime must be there before Python is
	program=$1
	shift
	env LD_PRELOAD="$preload" PYTHONDONTWRITEBYTECODE=1 \
		PYTHONPATH="$top_builddir/python/stage:$build/.libs" "$PYTHON" "$top/tests/bench/$program" "$@"
}
preload=
case $(sed -n 's/^QBRT_CFLAGS = //p' "$top_builddir/tests/Makefile") in
*-fsanitize=*address*) preload=$(${CC:-gcc} -print-file-name=libasan.so) ;;
esac
if [ ! -e "$build/.libs/bench_native.abi3.so" ]; then
	echo "# without Python: the package is not built"
elif ! "$PYTHON" -c 'import numpy' 2>/dev/null; then
	echo "# without Python: $PYTHON has no NumPy"
else
	for program in bench_asyncio.py bench_interop.py bench_peers.py bench_python.py; do
		smoke "$program" python "$program"
	done
	limits count_python.py python count_python.py
fi
echo "1..$count"
exit $failed
