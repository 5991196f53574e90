#!/bin/sh
# SPDX-License-Identifier: MIT
# SK1: isa.h and qbnpu_drm.h have one layout for 64 and for 32 bits, by the
# static assertions of layout-assert.c; and lib/dlpack-abi.h that of DLPack 1.3,
# as upstream's header has where there is one (DLPACK_CFLAGS says where, or the
# test environment holds one). No 32-bit libc is needed: the headers
# take types only. CC as the build's; TAP on stdout.
set -u
root=${1:-${top_srcdir:-$(dirname "$0")/..}}
cd "$root" || exit 1
CC=${CC:-gcc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
flags="-std=gnu11 -Wall -Wextra -Werror -ffreestanding -iquote kmod-shim
-iquote tests $(pkg-config --cflags libdrm)"
# asm/ of the 64-bit kernel headers, which are the same for these headers
machine=$($CC -print-multiarch 2>/dev/null)
[ -n "$machine" ] && flags="$flags -isystem /usr/include/$machine"
failed=0
compile() { # option, output
	# shellcheck disable=SC2086
	$CC $flags "$1" -c tests/layout-assert.c -o "$2" >"$work/out" 2>&1
}

echo "1..6"
if compile -DQBNPU_64 "$work/64.o"; then
	echo "ok 1 - layouts for this machine's own width"
else
	echo "not ok 1 - layouts for this machine's own width"
	sed 's/^/# /' "$work/out" | head -20
	failed=1
fi

echo 'typedef int nothing;' >"$work/empty.c"
if ! $CC -m32 -ffreestanding -c "$work/empty.c" -o "$work/empty.o" 2>/dev/null; then
	echo "ok 2 - layouts for 32 bits # SKIP $CC has no -m32"
elif compile -m32 "$work/32.o"; then
	echo "ok 2 - layouts for 32 bits"
else
	echo "not ok 2 - layouts for 32 bits"
	sed 's/^/# /' "$work/out" | head -20
	failed=1
fi

# the assertions do fail: one number is changed
mkdir "$work/tests"
sed 's/^LAYOUT(qbnpu_tensor, window, 120)/LAYOUT(qbnpu_tensor, window, 121)/' \
	tests/layout-isa.h >"$work/tests/layout-isa.h"
cp tests/layout-assert.c tests/layout-uapi.h "$work/tests/"
# shellcheck disable=SC2086
if $CC $flags -c "$work/tests/layout-assert.c" -o "$work/bad.o" >"$work/out" 2>&1; then
	echo "not ok 3 - a wrong offset is refused"
	failed=1
elif grep -q 'qbnpu_tensor.window' "$work/out"; then
	echo "ok 3 - a wrong offset is refused"
else
	echo "not ok 3 - a wrong offset is refused"
	sed 's/^/# /' "$work/out" | head -20
	failed=1
fi

dlpack() { # output, options
	output=$1
	shift
	$CC -std=gnu11 -Wall -Wextra -Werror -iquote lib -iquote tests "$@" \
		-c tests/layout-dlpack-assert.c -o "$output" >"$work/out" 2>&1
}
if dlpack "$work/ours.o"; then
	echo "ok 4 - the layout of DLPack 1.3, declared by us"
else
	echo "not ok 4 - the layout of DLPack 1.3, declared by us"
	sed 's/^/# /' "$work/out" | head -20
	failed=1
fi

upstream=${DLPACK_CFLAGS-}
for folder in .venv*/lib/python3*/site-packages/tvm_ffi/include; do
	[ -e "$folder/dlpack/dlpack.h" ] && upstream="$upstream -I$folder"
done
# shellcheck disable=SC2086
if ! echo '#include <dlpack/dlpack.h>
#if DLPACK_MAJOR_VERSION != 1 || DLPACK_MINOR_VERSION < 3
#error too old
#endif' | $CC $upstream -E - >"$work/out" 2>&1; then
	echo "ok 5 - the layout of upstream's header # SKIP no dlpack/dlpack.h of 1.3 or newer"
elif dlpack "$work/upstream.o" -DHAVE_DLPACK_DLPACK_H $upstream; then
	echo "ok 5 - the layout of upstream's header"
else
	echo "not ok 5 - the layout of upstream's header"
	sed 's/^/# /' "$work/out" | head -20
	failed=1
fi

sed 's/^LAYOUT_NUMBER(kDLBool, 6)/LAYOUT_NUMBER(kDLBool, 7)/' \
	tests/layout-dlpack.h >"$work/layout-dlpack.h"
cp tests/layout-dlpack-assert.c "$work/"
if (cd "$work" && $CC -std=gnu11 -iquote "$OLDPWD/lib" -c layout-dlpack-assert.c -o bad.o) \
	>"$work/out" 2>&1; then
	echo "not ok 6 - a wrong number of DLPack is refused"
	failed=1
elif grep -q kDLBool "$work/out"; then
	echo "ok 6 - a wrong number of DLPack is refused"
else
	echo "not ok 6 - a wrong number of DLPack is refused"
	sed 's/^/# /' "$work/out" | head -20
	failed=1
fi
exit $failed
