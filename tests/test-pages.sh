#!/bin/sh
# SPDX-License-Identifier: MIT
# What users read: each manual page renders without complaint into 80 columns,
# and the programs of the pages and of README.md compile and run, README.md's
# Python as well. Usage: test-pages.sh [ROOT]; TAP on stdout.
set -u
root=${1:-${top_srcdir:-$(dirname "$0")/..}}
build=${top_builddir:?}
cd "$root" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0
failed=0
verdict() { # status, words
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		sed 's/^/# /' "$work/out"
		failed=1
	fi
}

# rendered bold is a character, a backspace, the character again
renders() { # page
	scdoc <"man/$1.scd" >"$work/$1" && mandoc -T lint -W error "$work/$1" || return 1
	mandoc -T utf8 "$work/$1" | sed "s/.$(printf '\b')//g" | grep -E '.{81}' | sed 's/^/too wide: /'
}
if command -v scdoc >/dev/null && command -v mandoc >/dev/null; then
	for page in man/*.scd; do
		page=$(basename "$page" .scd)
		LC_ALL=C.UTF-8 renders "$page" >"$work/out" 2>&1 && ! [ -s "$work/out" ]
		verdict $? "$page renders into 80 columns"
	done
else
	count=$((count + 1))
	echo "ok $count - pages render into 80 columns # SKIP scdoc or mandoc is missing"
fi

# What a fragment of a page finds declared, and what is called before it.
cat >"$work/before" <<'EOF'
#include <qbruntime/qbrt.h>
#include <stdio.h>
#include <string.h>
#define TRY(call) \
	do { \
		if ((call) != QBRT_OK) { \
			fprintf(stderr, "%s\n", qbrt_error_detail()); \
			return 1; \
		} \
	} while (0)
static const char *path;
static struct qbrt_accelerator *acc;
static struct qbrt_model *model, *first, *second;
static struct qbrt_model_config *config;
static struct qbrt_pinned_memory *picture, *features, *scores;
static struct qbrt_future *future;
static void prepare_next_picture(void) {}
static int example(void)
{
EOF
cat >"$work/after" <<'EOF'
	return 0;
}
int main(int argc, char **argv)
{
	path = argv[argc - 2];
	TRY(qbrt_accelerator_open(NULL, -1, &acc));
	TRY(qbrt_model_load(path, NULL, &model));
	TRY(qbrt_model_launch(model, acc));
	TRY(qbrt_model_load(argv[argc - 1], NULL, &first));
	TRY(qbrt_model_launch(first, acc));
	second = first;
	TRY(qbrt_model_alloc_input(first, 0, &picture));
	TRY(qbrt_model_alloc_output(first, 0, &features));
	TRY(qbrt_model_alloc_output(second, 0, &scores));
	return example();
}
EOF
# The C of a file: in a page the blocks of its examples, with scdoc's escapes.
for file in README.md man/*.[37].scd; do
	awk -v out="$work/$(basename "$file" .scd)" '
	/^# / { in_examples = $2 ~ /^EXAMPLE/ }
	/^```/ { is_open = !is_open; if (is_open && (in_examples || /^```c$/)) { file = out "-" ++num ".c"; next } file = ""; next }
	file { if (FILENAME ~ /scd$/) gsub(/\\\\/, "\\"); print >file }' "$file"
done
sanitizer=$(sed -n 's/^QBRT_CFLAGS = //p' "$build/lib/Makefile" | tr ' ' '\n' | grep '^-fsanitize=')
compiles_and_runs() { # source; a fragment leaves to the process what it holds
	grep -q '^int main' "$1" ||
		{ cat "$work/before" "$1" "$work/after" >"$1.new" && mv "$1.new" "$1"; }
	# shellcheck disable=SC2086
	${CC:-cc} -std=c11 -Wall -Wextra -Werror -Wno-unused $sanitizer -Iinclude "$1" -o "$1.run" \
		"$build/lib/.libs/libqbruntime.so" -Wl,-rpath,"$build/lib/.libs" &&
		ASAN_OPTIONS=detect_leaks=0 "$1.run" examples/digits.qbm tests/data/golden/copy64.qbm
}
for source in "$work"/*.c; do
	compiles_and_runs "$source" >"$work/out" 2>&1
	verdict $? "$(basename "$source" .c | sed 's/-/, example /') compiles and runs"
done

awk -v out="$work/README" '/^```/ { file = /^```python$/ ? out "-" ++num ".py" : ""; next } file { print >file }' README.md
preload=$(sh tests/preload "$build") || exit 1
if grep -q '^pkgpyexec_DATA' "$build/python/Makefile" && "${PYTHON:-python3}" -c 'import numpy' 2>/dev/null; then
	for source in "$work"/*.py; do
		LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$build/python/stage \
			"${PYTHON:-python3}" -W error "$source" >"$work/out" 2>&1
		verdict $? "$(basename "$source" .py | sed 's/README-/README.md, Python example /') runs"
	done
else
	count=$((count + 1))
	echo "ok $count - the Python of README.md runs # SKIP the package or NumPy is missing"
fi
echo "1..$count"
exit $failed
