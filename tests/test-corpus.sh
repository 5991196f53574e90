#!/bin/sh
# SPDX-License-Identifier: MIT
# QM06, V61: the committed programs of the fuzz corpus are what the builders of
# check-validate write today, byte for byte.
set -u
corpus=${top_srcdir:?}/tests/fuzz/corpus/validate
if [ ! -e "${top_builddir:?}/tests/check-validate" ]; then
	echo "1..0 # SKIP check-validate was not built: Check is missing"
	exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
echo "1..2"
if QBRUNTIME_WRITE_CORPUS=$work "$top_builddir/tests/check-validate" >"$work.log" 2>&1; then
	echo "ok 1 - check-validate writes the corpus"
else
	echo "not ok 1 - check-validate writes the corpus"
	tail -n 20 "$work.log" | sed 's/^/# /'
fi
rm -f "$work.log"
if diff -r "$corpus" "$work" >"$work.diff" 2>&1 && [ -n "$(ls "$corpus")" ]; then
	echo "ok 2 - it is the committed one"
else
	echo "not ok 2 - it is the committed one"
	sed 's/^/# /' "$work.diff" | head -n 20
fi
rm -f "$work.diff"
