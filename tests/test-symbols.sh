#!/bin/sh
# SPDX-License-Identifier: MIT
# The map is the set of dynamic symbols, node by node; nothing with another
# prefix leaves the objects; hooks of the tests have a node of their own, and no
# public header has them (SH5). Usage: test-symbols.sh [MAP LIBRARY ARCHIVE].
set -u
map=${1:-${top_srcdir:-..}/lib/libqbruntime.map}
library=${2:-${top_builddir:-..}/lib/.libs/libqbruntime.so}
archive=${3:-${top_builddir:-..}/lib/.libs/libqbrt.a}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# "node symbol" of the map
awk '
{ sub(/#.*/, ""); gsub(/\/\*.*\*\//, "") }
/^[A-Z_0-9.]+ *\{/ { node = $1; sub(/\{.*/, "", node); next }
/^\}/ { node = ""; next }
node != "" {
	gsub(/(global|local):/, ""); n = split($0, s, /[; \t]+/)
	for (i = 1; i <= n; i++) if (s[i] != "" && s[i] != "*") print node, s[i]
}' "$map" | LC_ALL=C sort >"$work/map"
nm -D --defined-only --with-symbol-versions "$library" |
awk '$2 != "A" { n = split($3, s, /@+/); if (n == 2) print s[2], s[1]; else print "-", $3 }' |
	LC_ALL=C sort >"$work/library"
if diff -u "$work/map" "$work/library" >"$work/diff" && [ -s "$work/map" ]; then
	echo "ok 1 - the map and the dynamic symbols are the same"
else
	echo "not ok 1 - the map and the dynamic symbols are the same"
	sed 's/^/# /' "$work/diff"
	failed=1
fi

# gcov's and the sanitizers' own symbols aside
nm --defined-only --extern-only "$archive" 2>/dev/null | awk 'NF == 3 { print $3 }' |
	grep -vE '^(qbrt_|qbnpu_|__asan_|__odr_asan|_?_gcov|__tsan|__ubsan|mangled_path)' >"$work/leaks"
if [ -s "$work/leaks" ]; then
	echo "not ok 2 - every global symbol begins with qbrt_ or qbnpu_"
	sed 's/^/# /' "$work/leaks"
	failed=1
else
	echo "ok 2 - every global symbol begins with qbrt_ or qbnpu_"
fi

# published nodes: qbrt_ alone; the private one: qbnpu_ alone
awk '($1 == "QBRUNTIME_PRIVATE") != ($2 ~ /^qbnpu_/) { print }' "$work/map" >"$work/private"
grep -rn 'qbnpu_' "${top_srcdir:-..}/include" >>"$work/private"
if [ -s "$work/private" ] || ! grep -q '^QBRUNTIME_PRIVATE ' "$work/map"; then
	echo "not ok 3 - hooks of the tests are in the private node and in no public header"
	sed 's/^/# /' "$work/private"
	failed=1
else
	echo "ok 3 - hooks of the tests are in the private node and in no public header"
fi
echo "1..3"
exit $failed
