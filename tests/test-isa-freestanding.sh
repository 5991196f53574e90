#!/bin/sh
# SPDX-License-Identifier: MIT
# V00: validate*.c and bind.c are freestanding. Each compiles without libc
# headers, without floating point or vector registers and with warnings about
# conversions; together they need nothing but what a compiler may call by
# itself, keep no state, and do not recurse. CC as the build's; TAP on stdout.
set -u
root=${1:-${top_srcdir:-$(dirname "$0")/..}}
cd "$root" || exit 1
CC=${CC:-gcc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
count=0
verdict() { # name, status; what went wrong is in $work/out
	count=$((count + 1))
	if [ "$2" -eq 0 ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		sed 's/^/# /' "$work/out" | head -20
		failed=1
	fi
}

# What isa.h may include, and no header of libc beside it
compiler=$($CC -print-file-name=include)
machine=$($CC -print-multiarch 2>/dev/null || :)
asm=/usr/include/${machine:+$machine/}asm
mkdir "$work/include"
ln -s "$asm" "$work/include/asm"
ln -s /usr/include/asm-generic "$work/include/asm-generic"
case $($CC -dumpmachine) in
x86_64-* | i?86-*) registers="-mgeneral-regs-only -mno-sse" ;;
aarch64-*) registers="-mgeneral-regs-only" ;;
*) registers= ;;
esac
flags="-std=gnu11 -O2 -ffreestanding -nostdinc -isystem $compiler
-isystem $work/include $registers -fno-pic -fvisibility=hidden -Werror -Wall -Wextra
-Wconversion -Wshadow -Wundef -Wvla -iquote kmod-shim"

objects=
for source in kmod-shim/isa/*.c; do
	object=$work/$(basename "$source" .c).o
	# shellcheck disable=SC2086
	$CC $flags -c "$source" -o "$object" >"$work/out" 2>&1
	verdict "$(basename "$source") is freestanding" $?
	objects="$objects $object"
done

# shellcheck disable=SC2086
ld -r -o "$work/isa.o" $objects >"$work/out" 2>&1
verdict "the parts link" $?
nm -u "$work/isa.o" | awk '{ print $2 }' |
	grep -vxE '(__)?(memcpy|memmove|memset|memcmp)' >"$work/out"
test ! -s "$work/out"
verdict "nothing else is called" $?
nm "$work/isa.o" | grep -E ' [bBdDC] ' >"$work/out"
test ! -s "$work/out"
verdict "there is no state" $?

# The calls between functions, by relocation or by offset, have no cycle.
objdump -dr "$work/isa.o" | awk '
/^[0-9a-f]+ <.*>:$/ { f = $2; gsub(/[<>:]/, "", f) }
/R_[A-Z0-9_]*(PLT32|PC32|CALL26|JUMP26)/ { t = $3; sub(/[-+]0x.*/, "", t); print f, t }
/\t(call|bl|jmp|b) .*<[A-Za-z_]/ { t = $NF; gsub(/[<>]/, "", t); if (t !~ /\+0x/) print f, t }
' | awk '$1 != "" && $2 ~ /^[a-z_]/' | sort -u >"$work/calls"
tsort "$work/calls" >/dev/null 2>"$work/out"
test ! -s "$work/out" && test -s "$work/calls"
verdict "no function calls itself, even through others" $?
awk '$1 == $2' "$work/calls" >"$work/out"
test ! -s "$work/out"
verdict "no function calls itself" $?
echo "1..$count"
exit $failed
