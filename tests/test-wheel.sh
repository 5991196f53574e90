#!/bin/sh
# SPDX-License-Identifier: MIT
# Q002 Q003: pip makes one wheel of the tree without a network, for every Python
# from 3.11 on; it refuses where another distribution has the package. The wheel
# works in a new virtual environment that finds no compiler: the library and its
# data lie in it. Builds, so it is a step of CI and not of make check.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH
export PIP_NO_INDEX=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
fail() {
	echo "test-wheel.sh: $*" >&2
	exit 1
}

# NumPy is the system's
"$PYTHON" -m venv --system-site-packages "$work/venv"
bin=$work/venv/bin
packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# another distribution's package is refused by name, and stays what it is
other=$packages/other_runtime-1.0.dist-info
mkdir "$packages/qbruntime" "$other"
echo "theirs = True" >"$packages/qbruntime/__init__.py"
printf 'Metadata-Version: 2.1\nName: other-runtime\nVersion: 1.0\n' >"$other/METADATA"
printf 'qbruntime/__init__.py,,\n' >"$other/RECORD"
! "$bin/pip" install "$top" >"$work/out" 2>&1 || fail "another distribution's files were overwritten"
grep -q 'of the distribution other-runtime is installed' "$work/out" || fail "$(cat "$work/out")"
"$bin/python" -c 'import qbruntime; assert qbruntime.theirs'
! "$bin/pip" wheel --no-deps --config-settings jobs=2 -w "$work" "$top" >"$work/out" 2>&1 || fail "a setting is ignored"
"$bin/pip" -q wheel --no-deps --config-settings overwrite=yes -w "$work" "$top"
rm -r "$packages/qbruntime" "$other"

version=$(sed -n 's/^AC_INIT(\[qbruntime\], \[\([^]]*\)\].*/\1/p' "$top/configure.ac")
wheel=$work/qbruntime-$version-cp311-abi3-linux_$(uname -m).whl
[ -e "$wheel" ] || fail "no $wheel but $(ls "$work")"
info=qbruntime-$version.dist-info
{
	sed -n '/^PACKAGE_FILES/,/[^\\]$/s/^\t\([^ ]*\).*/\1/p' "$top/python/Makefile.am"
	echo qbruntime/qbruntime.abi3.so
	echo qbruntime/lib/libqbruntime.so.0
	printf 'qbruntime/lib/qbruntime/%s\n' digits.qbm digits-16.u8 digits-16.txt
	printf "$info/%s\n" METADATA WHEEL RECORD COPYING
} | LC_ALL=C sort >"$work/expected"
"$PYTHON" -c 'import sys, zipfile; print(*zipfile.ZipFile(sys.argv[1]).namelist(), sep="\n")' "$wheel" |
	LC_ALL=C sort | diff "$work/expected" - || fail "other files than expected"

# installed by what has no compiler in reach, and found complete
env -i PATH="$bin" PIP_NO_INDEX=1 "$bin/pip" -q install "$wheel"
"$bin/pip" show -f qbruntime >"$work/out"
grep -qx 'Name: qbruntime' "$work/out" && grep -qx 'Requires: numpy' "$work/out" || fail "$(cat "$work/out")"
reads_digits() { # variables, then the Python and its arguments
	env -i "$@" >"$work/out"
	grep -qx 'kind: software' "$work/out" && grep -qx 'copied bytes: 0' "$work/out" &&
		grep -E '^[0-9] [0-9]$' "$work/out" >"$work/answers" || fail "$(cat "$work/out")"
	awk '!/^#/ { print $2, $3 }' "$top/examples/digits-16.txt" | diff - "$work/answers"
}
digits=$top/examples/digits.py
reads_digits PATH="$bin" "$bin/python" "$digits"
reads_digits PATH="$bin" "$bin/python" "$digits" "$packages/qbruntime/lib/qbruntime/digits.qbm"
# the same files in another Python with NumPy 2, where scripts/setup could make it
if [ -e "$top/.venv/made-of" ]; then
	reads_digits PYTHONPATH="$packages" "$top/.venv/bin/python" "$digits"
fi

# the library is the wheel's own, whatever the machine has
rpath() { objdump -p "$1" | awk '/RPATH|RUNPATH/ { print $2 }'; }
# shellcheck disable=SC2016
[ "$(rpath "$packages/qbruntime/qbruntime.abi3.so")" = '$ORIGIN/lib' ] || fail "the extension looks elsewhere"
[ -z "$(rpath "$packages/qbruntime/lib/libqbruntime.so.0")" ] || fail "the library has a path"
objdump -p "$packages/qbruntime/lib/libqbruntime.so.0" "$packages/qbruntime/qbruntime.abi3.so" |
	awk '/NEEDED/ && !/lib(c|m|z|drm|qbruntime)\.so|ld-linux/' >"$work/out"
[ ! -s "$work/out" ] || fail "needs $(cat "$work/out")"

# without NumPy all but arrays works
"$PYTHON" -m venv --without-pip "$work/bare"
"$PYTHON" -m zipfile -e "$wheel" "$("$work/bare/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
env -i "$work/bare/bin/python" - "$top/tests/data/golden/copy64.qbm" <<'EOF'
import sys
import qbruntime

with qbruntime.Accelerator() as acc, qbruntime.Model(sys.argv[1]) as model:
    model.launch(acc)
    x, y = model.allocate_inputs()[0], model.allocate_outputs()[0]
    memoryview(x)[:] = bytes(range(64))
    model.infer_pinned_memory(x, y)
    assert bytes(memoryview(y)) == bytes(range(64))
    assert "numpy" not in sys.modules
EOF
