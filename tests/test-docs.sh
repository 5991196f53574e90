#!/bin/sh
# SPDX-License-Identifier: MIT
# U57: every exported function has a full comment in qbrt.h (SH3) and a place in a
# manual page; every TODO names its trigger and is listed. Usage:
# test-docs.sh [ROOT]; TAP on stdout.
set -u
root=${1:-${top_srcdir:-$(dirname "$0")/..}}
cd "$root" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0
failed=0
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

awk '/QBRUNTIME_PRIVATE/ { exit } { print }' lib/libqbruntime.map |
	grep -oE '\bqbrt_[a-z0-9_]+' | LC_ALL=C sort -u >"$work/symbols"
[ -s "$work/symbols" ] || echo "no symbol in the map" >"$work/none"
touch "$work/none"
verdict "the map names symbols" "$work/none"

# The comment that ends right above the declaration, per function.
awk '
/^\/\*/ { text = ""; in_comment = 1 }
in_comment { text = text $0 "\n"; if (/\*\//) { in_comment = 0; last = text; fresh = 1 } next }
/^[ \t]*$/ { fresh = 0; decl = ""; next }
{
	decl = decl " " $0
	if (/;[ \t]*$/) {
		if (match(decl, /qbrt_[a-z0-9_]+\(/) && decl !~ /typedef/) {
			name = substr(decl, RSTART, RLENGTH - 1)
			print name, (fresh && last ~ /Threads:/ ? "T" : "-"), (fresh && last ~ /Since:/ ? "S" : "-")
		}
		decl = ""
	}
}' include/qbruntime/qbrt.h | LC_ALL=C sort >"$work/declared"
while read -r symbol; do
	line=$(grep "^$symbol " "$work/declared")
	case $line in
	"") echo "$symbol: not declared in qbrt.h" ;;
	*"T S") ;;
	*) echo "$symbol: no comment with Threads: and Since: right above it" ;;
	esac
done <"$work/symbols" >"$work/comments"
verdict "each function has a comment with Threads: and Since:" "$work/comments"

while read -r symbol; do
	# scdoc escapes underscores
	cat man/*.scd | sed 's/\\_/_/g' | grep -qw -- "$symbol" || echo "$symbol: in no manual page"
done <"$work/symbols" >"$work/manuals"
verdict "each function stands in a manual page" "$work/manuals"

cut -d' ' -f1 "$work/declared" | LC_ALL=C comm -23 - "$work/symbols" >"$work/extra"
verdict "qbrt.h declares nothing that the map lacks" "$work/extra"

# TODO (when EVENT): what
grep -rnE '\b(TODO|FIXME|XXX)\b' include lib kmod-shim tools examples tests man scripts 2>/dev/null |
	grep -v 'tests/test-docs.sh\|tests/guards/' >"$work/todos"
grep -vE 'TODO \(when [^)]+\): ' "$work/todos" >"$work/bad-todos"
verdict "each TODO says when it falls due" "$work/bad-todos"
sed 's/^/# /' "$work/todos"
echo "1..$count"
exit $failed
