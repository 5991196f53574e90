#!/bin/sh
# SPDX-License-Identifier: MIT
# ST13 K527: each row of docs/spec/ has a test that carries its id, or a line in
# tests/rows-later.txt that says what it waits for; never both, and no id that
# is no row. Usage: test-rows.sh [ROOT]; TAP on stdout.
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
		sed 's/^/# /' "$2" | head -400
		failed=1
	else
		echo "ok $count - $1"
	fi
}
id='(BE|BF|BI|BN|CT|DV|FI|FM|IS|KV|LD|MM|MO|NC|PF|PM|QC|QE|QL|QM|SU|VP|B|D|H|I|K|L|P|Q|T|U|V)[0-9]+'

# A row begins a table line, or stands bold before a table.
cat docs/spec/*.md | grep -oE "^(\\| *$id *\\||\\*\\*$id\\*\\*)" |
	grep -oE "$id" | LC_ALL=C sort -u >"$work/rows"

# Ids in the comments of tests: C, shell, Python, corpus texts. I32, BF16 and
# their like are element types everywhere but in tests/cli/.
find tests -type f \( -name '*.c' -o -name '*.h' -o -name '*.sh' -o -name '*.py' -o -name '*.txt' -o \
	-path tests/bench/counts -o -path tests/bench/report \) \
	! -name rows-later.txt ! -name layers.txt ! -path 'tests/guards/*' | sort | xargs awk '
FNR == 1 { in_comment = 0 }
FILENAME ~ /\.[ch]$/ {
	line = $0
	while (line != "") {
		if (in_comment) {
			e = index(line, "*/")
			if (e) { print FILENAME ": " substr(line, 1, e - 1); line = substr(line, e + 2); in_comment = 0 }
			else { print FILENAME ": " line; line = "" }
		} else {
			s = index(line, "/*"); d = index(line, "//")
			if (d && (!s || d < s)) { print FILENAME ": " substr(line, d + 2); line = "" }
			else if (s) { line = substr(line, s + 2); in_comment = 1 }
			else line = ""
		}
	}
	next
}
{ s = index($0, "#"); if (s) print FILENAME ": " substr($0, s + 1) }
' | sed -E '/^tests\/cli\//!s/\b([IU](8|16|32|64)|BF16)\b//g' | grep -oE "\\b$id\\b" | LC_ALL=C sort -u >"$work/tested"

grep -vE '^(#|$)' tests/rows-later.txt | awk '{ print $1 }' | LC_ALL=C sort >"$work/later-all"
LC_ALL=C sort -u "$work/later-all" >"$work/later"

LC_ALL=C comm -23 "$work/rows" "$work/tested" | LC_ALL=C comm -23 - "$work/later" >"$work/untested"
verdict "each row has a test or a line in rows-later.txt" "$work/untested"
LC_ALL=C comm -12 "$work/tested" "$work/later" >"$work/both"
verdict "no row that has a test is listed as later" "$work/both"
LC_ALL=C comm -13 "$work/rows" "$work/tested" >"$work/ghosts"
LC_ALL=C comm -13 "$work/rows" "$work/later" >>"$work/ghosts"
verdict "no id is named that is no row" "$work/ghosts"
{ LC_ALL=C uniq -d "$work/later-all"
  grep -vE '^(#|$)' tests/rows-later.txt | awk 'NF < 2 { print $1 ": waits for what?" }'; } >"$work/list"
verdict "each later row stands once and says what it waits for" "$work/list"
echo "# rows: $(wc -l <"$work/rows"), tested: $(LC_ALL=C comm -12 "$work/rows" "$work/tested" | wc -l), later: $(wc -l <"$work/later")"
echo "1..$count"
exit $failed
