#!/bin/sh
# SPDX-License-Identifier: MIT
# Every program of tests/bench/ works: one call of each thing that it
# measures, and no time is looked at. Usage: test-bench.sh; TAP on stdout.
set -u
build=${top_builddir:?}/tests/bench
count=0
failed=0

# PoCL and its LLVM keep what they allocated.
ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
export ASAN_OPTIONS
for program in "$build"/bench-*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	count=$((count + 1))
	name=$(basename "$program")
	if "$program" --smoke >"$build/smoke.log" 2>&1; then
		echo "ok $count - $name does what it measures"
		grep 'not_measured: ' "$build/smoke.log" | grep -v 'one call each' | sed 's/^/# /'
	else
		echo "not ok $count - $name does what it measures"
		sed 's/^/# /' "$build/smoke.log"
		failed=1
	fi
done
for program in count-steady count-memory; do
	[ -x "$build/$program" ] || continue
	count=$((count + 1))
	if "$build/$program" >"$build/smoke.log" 2>&1; then
		echo "ok $count - $program finds nothing above its limit"
	else
		echo "not ok $count - $program finds nothing above its limit"
		failed=1
	fi
	sed 's/^/# /' "$build/smoke.log"
done
if [ $count -eq 0 ]; then
	echo "1..0 # SKIP no program was built: json-c or Check is missing"
	exit 0
fi
echo "1..$count"
exit $failed
