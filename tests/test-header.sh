#!/bin/sh
# SPDX-License-Identifier: MIT
# SH2 and Q732: the public header is clean in C99, C11 and C++17, alone and
# pedantically, and includes three headers only; each private header compiles
# alone. Usage: test-header.sh [ROOT]; CC and CXX as the build's.
set -u
root=${1:-${top_srcdir:-$(dirname "$0")/..}}
cd "$root" || exit 1
CC=${CC:-gcc}
CXX=${CXX:-g++}
drm=$(pkg-config --cflags libdrm 2>/dev/null)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0
failed=0
verdict() { # name, status
	count=$((count + 1))
	if [ "$2" -eq 0 ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		sed 's/^/# /' "$work/out" | head -20
		failed=1
	fi
}

pedantic="-pedantic-errors -Wall -Wextra -Wpadded -Werror -Iinclude -fsyntax-only"
for header in qbrt.h qbruntime.h; do
	for std in c99 c11; do
		echo "#include <qbruntime/$header>" >"$work/t.c"
		# shellcheck disable=SC2086
		$CC -std=$std $pedantic "$work/t.c" >"$work/out" 2>&1
		verdict "$header is clean as $std" $?
	done
	echo "#include <qbruntime/$header>" >"$work/t.cc"
	# shellcheck disable=SC2086
	$CXX -std=c++17 $pedantic "$work/t.cc" >"$work/out" 2>&1
	verdict "$header is clean as c++17" $?
done

grep -n '^#[[:space:]]*include' include/qbruntime/qbrt.h |
	grep -vE '<std(bool|def|int)\.h>' >"$work/out"
test ! -s "$work/out"
verdict "qbrt.h includes stdbool, stddef and stdint only" $?

# the commonest program, as architecture section 4 shows it
cat >"$work/t.c" <<'C'
#include <string.h>
#include <qbruntime/qbruntime.h>
#define TRY(call) do { if ((call) != QBRT_OK) return 1; } while (0)
int first(const void *picture);
int first(const void *picture)
{
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *in, *out;

	TRY(qbrt_accelerator_open(NULL, -1, &acc));
	TRY(qbrt_model_load("model.qbm", NULL, &model));
	TRY(qbrt_model_launch(model, acc));
	TRY(qbrt_model_alloc_input(model, 0, &in));
	TRY(qbrt_model_alloc_output(model, 0, &out));
	memcpy(qbrt_pinned_memory_get_data(in), picture,
	       qbrt_pinned_memory_get_nbytes(in));
	TRY(qbrt_model_infer_pinned_memory(model, NULL, &in, 1, &out, 1));
	return 0;
}
C
for std in c99 c11; do
	# shellcheck disable=SC2086
	$CC -std=$std $pedantic "$work/t.c" >"$work/out" 2>&1
	verdict "the commonest program compiles as $std" $?
done

: >"$work/all"
for header in lib/*.h kmod-shim/*/*.h kmod-shim/device/kernels/*.h; do
	[ -e "$header" ] || continue
	echo "#include \"$header\"" >"$work/t.c"
	# shellcheck disable=SC2086
	$CC -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only -iquote . -iquote lib \
		-iquote kmod-shim -Iinclude $drm "$work/t.c" >>"$work/all" 2>&1
done
cp "$work/all" "$work/out"
test ! -s "$work/out"
verdict "each private header compiles alone" $?
echo "1..$count"
exit $failed
