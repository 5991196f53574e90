#!/bin/sh
# SPDX-License-Identifier: MIT
# ST1: the Python tests run against a staged installation, never against the
# source tree. One TAP line a test.
set -u
top=${top_srcdir:?}
build=${top_builddir:?}
PYTHON=${PYTHON:-/usr/bin/python3}
if ! grep -q '^qbcompiledir' "$build/tools/Makefile"; then
	echo "1..0 # SKIP configured --without-tools"
	exit 0
fi
if ! "$PYTHON" -c 'import pytest, numpy, onnx' 2>/dev/null; then
	echo "1..0 # SKIP $PYTHON has no pytest, NumPy or onnx"
	exit 0
fi
stage=$(mktemp -d) || exit 1
trap 'rm -rf "$stage"' EXIT
for folder in lib python tools; do
	make -C "$build/$folder" -s install DESTDIR="$stage" >"$stage/log" 2>&1 || {
		sed 's/^/# /' "$stage/log"
		echo "not ok 1 - make install stages $folder"
		echo "1..1"
		exit 1
	}
done
parent() { # the folder above a staged file's
	dirname "$(dirname "$(find "$stage" -path "*/$1")")"
}
# without the package its tests skip
if grep -q '^pkgpyexec_DATA' "$build/python/Makefile"; then
	runtime=$(parent qbruntime/pinned_memory.py)
fi
# a sanitizer's runtime must be there before Python is
preload=
case $(sed -n 's/^QBRT_CFLAGS = //p' "$build/tools/Makefile") in
*-fsanitize=*address*) preload=$(${CC:-gcc} -print-file-name=libasan.so) ;;
esac
cd "$top/tests/python" || exit 1
exec env LD_PRELOAD="$preload" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONDONTWRITEBYTECODE=1 \
	PYTHONPATH="$(parent qbcompile/container.py)${runtime:+:$runtime}" \
	LD_LIBRARY_PATH="$(dirname "$(find "$stage" -name libqbruntime.so)")" \
	QBRUNTIME_TEST_TOP="$top" \
	QBRUNTIME_TEST_BUILD="$build" \
	QBRUNTIME_TEST_BIN="$(dirname "$(find "$stage" -name qbm -path '*/bin/*')")" \
	"$PYTHON" "$top/tests/pytest-tap" -q -p no:cacheprovider .
