#!/bin/sh
# SPDX-License-Identifier: MIT
# ST1: the Python tests run against a staged installation, never against the
# source tree. One TAP line a test. QBRUNTIME_TEST_FILES: not all of them, but
# these of tests/python. QBRUNTIME_TEST_FOLDER: of the scripts that call this one.
set -u
top=${top_srcdir:?}
build=${top_builddir:?}
PYTHON=${PYTHON:-/usr/bin/python3}
tests=${QBRUNTIME_TEST_FOLDER:-python}
modules="pytest numpy"
folders="lib python tools"
if [ "$tests" = qbcompile ]; then
	modules="$modules onnx"
	folders=tools
fi
if ! grep -q '^qbcompiledir' "$build/tools/Makefile"; then
	echo "1..0 # SKIP configured --without-tools"
	exit 0
fi
# shellcheck disable=SC2086
if ! "$PYTHON" -c 'import importlib, sys
for name in sys.argv[1:]: importlib.import_module(name)' $modules 2>/dev/null; then
	echo "1..0 # SKIP $PYTHON has not all of $modules"
	exit 0
fi
stage=$(mktemp -d) || exit 1
trap 'rm -rf "$stage"' EXIT
for folder in $folders; do
	# one at a time: it links anew in the build folder
	MAKEFLAGS='' flock "$build/tests/Makefile" make -C "$build/$folder" -s install DESTDIR="$stage" >"$stage/log" 2>&1 || {
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
runtime=
if [ "$tests" != qbcompile ] && grep -q '^pkgpyexec_DATA' "$build/python/Makefile"; then
	runtime=$(parent qbruntime/pinned_memory.py):$stage/doubles
	mkdir "$stage/doubles" || exit 1
	cp "$build/tests/.libs/fake_dlpack.so" "$stage/doubles" || exit 1
fi
preload=$(sh "$top/tests/preload" "$build") || exit 1
where=
case $preload in
# some kernels place memory where TSan does not expect any
*libtsan*) setarch -R true 2>/dev/null && where="setarch -R" ;;
esac
run() { # the Python's arguments
	# shellcheck disable=SC2086
	env LD_PRELOAD="$preload" PYTHONDONTWRITEBYTECODE=1 \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		TSAN_OPTIONS="halt_on_error=0:die_after_fork=0:log_path=$stage/tsan:suppressions=$top/tests/tsan.supp" \
		PYTHONPATH="$(parent qbcompile/container.py)${runtime:+:$runtime}:$top/tests/python" \
		LD_LIBRARY_PATH="$(dirname "$(find "$stage" -name libqbruntime.so)")" \
		QBRUNTIME_TEST_TOP="$top" \
		QBRUNTIME_TEST_BUILD="$build" \
		QBRUNTIME_TEST_BIN="$(dirname "$(find "$stage" -name qbm -path '*/bin/*')")" \
		$where "$PYTHON" "$@"
}
cd "$top/tests/$tests" || exit 1
# shellcheck disable=SC2086
run -c 'import importlib, platform, sys
print("# Python", platform.python_version(),
      *(f"{name} {importlib.import_module(name).__version__}" for name in sys.argv[1:]))' $modules
# tests skip what cannot be imported: what was built must not be that
if [ -n "$runtime" ] && ! run -c 'import qbruntime' >"$stage/log" 2>&1; then
	sed 's/^/# /' "$stage/log"
	echo "not ok 1 - the package that was built can be imported"
	echo "1..1"
	exit 1
fi
# shellcheck disable=SC2086
run "$top/tests/pytest-tap" -q -p no:cacheprovider ${QBRUNTIME_TEST_FILES:-.}
status=$?
# of any process of the tests, whatever became of it
for report in "$stage"/tsan.*; do
	if [ -s "$report" ]; then
		sed 's/^/# /' "$report"
		status=1
	fi
done
exit $status
