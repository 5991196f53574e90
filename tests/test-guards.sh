#!/bin/sh
# SPDX-License-Identifier: MIT
# ST12: each guard rejects its own bad example. tests/guards/GUARD/CASE/ holds
# files to add to a copy of the tree; NAME.append is put behind the file NAME.
# The guard must hold on the copy without them and fail with them.
set -u
root=${1:-${top_srcdir:-$(dirname "$0")/..}}
root=$(cd "$root" && pwd) || exit 1
build=${top_builddir:-$root/build}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0
failed=0
say() { # ok|not ok, words
	count=$((count + 1))
	echo "$1 $count - $2"
	[ "$1" = ok ] || failed=1
}

fresh() {
	rm -rf "$work/tree"
	mkdir "$work/tree"
	(cd "$root" && tar -cf - --exclude=tests/fuzz/corpus --exclude='*.o' --exclude='*.lo' \
		--exclude=.libs --exclude=.deps \
		include lib kmod-shim python tests docs man scripts examples tools README.md .clang-format .clang-tidy) |
		tar -xf - -C "$work/tree"
}

overlay() { # folder
	(cd "$1" && find . -type f) | while read -r f; do
		case $f in
		*.append) cat "$1/$f" >>"$work/tree/${f%.append}" ;;
		*) mkdir -p "$(dirname "$work/tree/$f")" && cp "$1/$f" "$work/tree/$f" ;;
		esac
	done
}

guard() { # name: runs it on the copy
	# shellcheck disable=SC2046
	case $1 in
	layers | docs | rows | header) sh "$work/tree/tests/test-$1.sh" "$work/tree" ;;
	pages) top_builddir=$build sh "$work/tree/tests/test-pages.sh" "$work/tree" ;;
	symbols) sh "$work/tree/tests/test-symbols.sh" "$work/tree/lib/libqbruntime.map" \
		"$build/lib/.libs/libqbruntime.so" "$build/lib/.libs/libqbrt.a" ;;
	format) sh "$work/tree/scripts/format" --check ;;
	tidy) (cd "$work/tree" && sh scripts/tidy "$build" $(cd "$2" && find . -name '*.c')) ;;
	warnings) (cd "$work/tree" && ${CC:-gcc} $(sed -n 's/^QBRT_CFLAGS = //p' "$build/lib/Makefile") \
		-Werror -iquote lib -iquote kmod-shim -Iinclude -c $(cd "$2" && find . -name '*.c') -o "$work/o") ;;
	esac >"$work/out" 2>&1
}

for dir in "$root"/tests/guards/*/; do
	name=$(basename "$dir")
	case $name in
	format) tool=clang-format-14 ;;
	tidy) tool=clang-tidy-14 ;;
	pages) tool=mandoc ;;
	*) tool="sh" ;;
	esac
	if ! command -v $tool >/dev/null; then
		count=$((count + 1))
		echo "ok $count - $name rejects its bad examples # SKIP no $tool"
		continue
	fi
	case $name in
	tidy | warnings) ;;
	*)
		fresh
		if guard "$name" "$dir"; then
			say ok "$name holds on the tree"
		else
			say "not ok" "$name holds on the tree"
			sed 's/^/# /' "$work/out" | tail -n 20
		fi
		;;
	esac
	for case in "$dir"*/; do
		fresh
		overlay "$case"
		if guard "$name" "$case"; then
			say "not ok" "$name rejects $(basename "$case")"
		elif [ "$name" != header ] && grep -q 'No such file' "$work/out"; then
			say "not ok" "$name ran on $(basename "$case")"
		else
			say ok "$name rejects $(basename "$case")"
		fi
	done
done
echo "1..$count"
exit $failed
