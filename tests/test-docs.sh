#!/bin/sh
# SPDX-License-Identifier: MIT
# U57 Q734: every exported function has a full comment in qbrt.h (SH3), and a manual page
# that declares it, describes it and names the statuses of that comment; every
# constant stands in a page; every TODO names its trigger and is listed. Usage:
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

# The constants of the header, statuses apart: those are named where a function
# gives them. What ends in _ERROR is no value.
header=include/qbruntime/qbrt.h
awk '/^enum qbrt_status/ { is_status = 1 } /^}/ { is_status = 0 }
	match($0, /^(#define |\t)QBRT_[A-Z0-9_]+ /) {
		sub(/^(#define |\t)/, ""); print (is_status ? "S " : "C ") $1 }' $header |
	grep -vE '_ERROR$|QBRT_H$|MUST_CHECK$' >"$work/all-constants"
sed -n 's/^S //p' "$work/all-constants" >"$work/statuses"
sed -n 's/^C //p' "$work/all-constants" >"$work/constants"

# The comment that ends right above the declaration, per function.
awk -v statuses="$work/statuses" -v named="$work/named" '
BEGIN { while ((getline status <statuses) > 0) is_status[status] = 1 }
/^\/\*/ { text = ""; in_comment = 1 }
in_comment { text = text $0 "\n"; if (/\*\//) { in_comment = 0; last = text; fresh = 1 } next }
/^[ \t]*$/ { fresh = 0; decl = ""; next }
{
	decl = decl " " $0
	if (/;[ \t]*$/) {
		if (match(decl, /qbrt_[a-z0-9_]+\(/) && decl !~ /typedef/) {
			name = substr(decl, RSTART, RLENGTH - 1)
			print name, (fresh && last ~ /Threads:/ ? "T" : "-"), (fresh && last ~ /Since:/ ? "S" : "-")
			num = split(last, words, /[^A-Z0-9_]+/)
			for (i = 1; fresh && i <= num; i++)
				if (words[i] in is_status)
					print name, words[i] >named
		}
		decl = ""
	}
}' $header | LC_ALL=C sort -u >"$work/declared"
while read -r symbol; do
	line=$(grep "^$symbol " "$work/declared")
	case $line in
	"") echo "$symbol: not declared in qbrt.h" ;;
	*"T S") ;;
	*) echo "$symbol: no comment with Threads: and Since: right above it" ;;
	esac
done <"$work/symbols" >"$work/comments"
verdict "each function has a comment with Threads: and Since:" "$work/comments"

# A page as two texts, without scdoc's escapes: its synopsis, and the rest.
for page in man/*.scd; do
	name=$(basename "$page" .scd)
	sed 's/\\_/_/g' "$page" | awk -v synopsis="$work/$name.synopsis" -v rest="$work/$name.text" '
	/^# / { is_synopsis = /SYNOPSIS/ }
	{ print >(is_synopsis ? synopsis : rest) }'
done
find_page() { # function: the one whose synopsis has it
	grep -lE "\b$1\(" "$work"/*.synopsis | head -n 1
}
while read -r symbol; do
	page=$(find_page "$symbol")
	if [ -z "$page" ]; then
		echo "$symbol: in the synopsis of no manual page"
	elif ! grep -qw -- "$symbol" "${page%.synopsis}.text"; then
		echo "$symbol: $(basename "$page" .synopsis) says nothing of it"
	fi
done <"$work/symbols" >"$work/manuals"
verdict "each function is declared and described in a manual page" "$work/manuals"

LC_ALL=C sort -u "$work/named" | while read -r symbol status; do
	page=$(find_page "$symbol")
	[ -z "$page" ] || grep -qw -- "$status" "${page%.synopsis}.text" ||
		echo "$status: of $symbol, and not in $(basename "$page" .synopsis)"
done >"$work/unnamed"
verdict "each status of a function's comment stands in its page" "$work/unnamed"

while read -r constant; do
	cat man/*.scd | grep -qw -- "$constant" || echo "$constant: in no manual page"
done <"$work/constants" >"$work/missing"
[ -s "$work/constants" ] && [ -s "$work/named" ] || echo "nothing was found in qbrt.h" >>"$work/missing"
verdict "each constant stands in a manual page" "$work/missing"

# qbruntime.h is for C++ and the vendor's programs
grep -nE '#include <qbruntime/' README.md man/*.scd examples/*.c 2>/dev/null |
	grep -v '<qbruntime/qbrt\.h>' >"$work/includes"
verdict "programs of the documentation include qbruntime/qbrt.h" "$work/includes"

cut -d' ' -f1 "$work/declared" | LC_ALL=C comm -23 - "$work/symbols" >"$work/extra"
verdict "qbrt.h declares nothing that the map lacks" "$work/extra"

# TODO (when EVENT): what
grep -rnE '\b(TODO|FIXME|XXX)\b' include lib kmod-shim python tools examples tests man scripts 2>/dev/null |
	grep -v 'tests/test-docs.sh\|tests/guards/' >"$work/todos"
grep -vE 'TODO \(when [^)]+\): ' "$work/todos" >"$work/bad-todos"
verdict "each TODO says when it falls due" "$work/bad-todos"
sed 's/^/# /' "$work/todos"
echo "1..$count"
exit $failed
