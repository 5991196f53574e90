#!/bin/sh
# SPDX-License-Identifier: MIT
# ST1, ST11: qbinfo from a staged installation, on captured systems and on this
# one. One TAP line a test; see tests/cli/. QBRUNTIME_TEST_CLI_FILES: not all of
# them, but these.
set -u
top=${top_srcdir:?}
build=${top_builddir:?}
PYTHON=${PYTHON:-/usr/bin/python3}
if ! grep -q '^qbcompiledir' "$build/tools/Makefile"; then
	echo "1..0 # SKIP configured --without-tools"
	exit 0
fi
if ! "$PYTHON" -c 'import pytest, jsonschema' 2>/dev/null; then
	echo "1..0 # SKIP $PYTHON has no pytest or no jsonschema"
	exit 0
fi
stage=$(mktemp -d) || exit 1
trap 'rm -rf "$stage"' EXIT
# also for the tests that run as another user
chmod 755 "$stage"
for folder in lib python tools examples; do
	# one at a time: it links anew in the build folder
	MAKEFLAGS='' flock "$build/tests/Makefile" make -C "$build/$folder" -s install DESTDIR="$stage" >"$stage/log" 2>&1 || {
		sed 's/^/# /' "$stage/log"
		echo "not ok 1 - make install stages $folder"
		echo "1..1"
		exit 1
	}
done
for program in five-facts qbinfo-bent; do
	(cd "$build/tests" && "$build/libtool" --quiet --mode=install cp $program "$stage/$program") \
		>"$stage/log" 2>&1 || {
		sed 's/^/# /' "$stage/log"
		echo "not ok 1 - $program is there"
		echo "1..1"
		exit 1
	}
done
package=$(find "$stage" -path '*/qbruntime/pinned_memory.py')
sanitizer=
case $(sed -n 's/^QBRT_CFLAGS = //p' "$build/tools/Makefile") in
*-fsanitize=*) sanitizer=yes ;;
esac
cd "$top/tests/cli" || exit 1
# shellcheck disable=SC2086
exec env PYTHONDONTWRITEBYTECODE=1 \
	LD_LIBRARY_PATH="$(dirname "$(find "$stage" -name libqbruntime.so)")" \
	QBRUNTIME_TEST_TOP="$top" \
	QBRUNTIME_TEST_STAGE="$stage" \
	QBRUNTIME_TEST_BENT_LIBRARY="$build/tests/.libs/libqbruntime-bent.so" \
	QBRUNTIME_TEST_PACKAGES="${package:+$(dirname "$(dirname "$package")")}" \
	QBRUNTIME_TEST_SANITIZER="$sanitizer" \
	QBRUNTIME_TEST_BENT="$stage/qbinfo-bent" \
	QBRUNTIME_TEST_QBINFO="$(find "$stage" -name qbinfo -path '*/bin/*')" \
	"$PYTHON" "$top/tests/pytest-tap" -q -p no:cacheprovider ${QBRUNTIME_TEST_CLI_FILES:-.}
