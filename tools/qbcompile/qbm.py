# SPDX-License-Identifier: MIT
"""qbm: shows, assembles, checks and changes .qbm files (section 16).

Exit codes are those of qbcompile: 0 ok, 1 internal, 2 usage, 3 input, 8
output, 9 verify failed (or diff found differences). An error is one sentence
on stderr; nothing that a file holds can cause a traceback.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import stat
import sys
import tempfile
from pathlib import Path
from typing import Callable, Optional, Sequence, Union

from . import __version__, asm, container
from . import isa_tables as isa
from .program import FormatError
from .records import MAGIC
from .sections import KINDS, MAX_FILE, Found, read_sections

OK, INTERNAL, USAGE, INPUT, OUTPUT, VERIFY = 0, 1, 2, 3, 8, 9
MAX_TEXT = 256 << 20

Validator = Callable[[bytes], tuple[int, int, int, int]]


class Failure(Exception):
    """Ends the tool with this exit code and sentence."""

    def __init__(self, code: int, path: Union[str, Path], sentence: str) -> None:
        super().__init__(f"{show(path)}: error[{code}]: {sentence}")
        self.code = code


def show(path: Union[str, Path]) -> str:
    """A path for messages: a text may name one that would move the cursor."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(path)
    )


def read_bytes(path: Path, most: int) -> bytes:
    """Content of a regular file of at most `most` bytes."""
    try:
        with open(path, "rb", opener=_open_now) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Failure(INPUT, path, "this is not a regular file")
            if status.st_size > most:
                raise Failure(INPUT, path, f"more than {most} bytes")
            return file.read(status.st_size)
    except OSError as error:
        raise Failure(INPUT, path, error.strerror or "cannot be read") from None


def _open_now(path: str, flags: int) -> int:
    # a FIFO without a writer must not block
    return os.open(path, flags | os.O_NONBLOCK)


def write_bytes(path: Path, data: bytes) -> None:
    """Replaces a file by a temporary one that is renamed, or leaves it alone."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".qbm-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise Failure(OUTPUT, path, error.strerror or "cannot be written") from None


def read_file(path: Path) -> tuple[bytes, container.File]:
    """Bytes and File of a container."""
    data = read_bytes(path, MAX_FILE)
    try:
        return data, container.read(data)
    except FormatError as error:
        raise Failure(INPUT, path, str(error)) from None


def write_file(path: Path, file: container.File, source: Path) -> None:
    """Writes a File in canonical form."""
    try:
        data = container.write(file)
    except ValueError as error:
        raise Failure(INPUT, source, str(error)) from None
    write_bytes(path, data)


def find_notes(data: bytes, file: container.File) -> list[str]:
    """What keeps a file from being what the canonical writer makes."""
    written = container.write(file)
    if written == data and not file.extra:
        return []
    notes = []
    for section in file.extra:
        name = section.kind.decode("latin-1").encode("unicode_escape").decode()
        notes.append(f"section {name}, {len(section.data)} bytes, is left out")
    new = {found.name: bytes(found.data) for found in read_sections(written)[1]}
    for found in read_sections(data)[1]:
        if new.get(found.name) != bytes(found.data):
            notes.append(f"not canonical: section {found.name}")
    if not notes:
        notes.append("not canonical: header or section table")
    return notes


def run_dump(options: argparse.Namespace) -> int:
    """dump FILE [-o TEXT]"""
    data, file = read_file(options.file)
    named: Path = options.output or options.file
    weights = named.with_suffix(".wght")
    text = asm.dump(file, weights.name, find_notes(data, file))
    apart = len(file.weights) > asm.MAX_HEX
    if options.output is None:
        sys.stdout.write(text)
        if apart:
            sys.stderr.write(f"{weights.name}: not written, as there is no -o\n")
        return OK
    if apart:
        write_bytes(weights, file.weights)
    write_bytes(options.output, text.encode())
    return OK


def run_asm(options: argparse.Namespace) -> int:
    """asm TEXT -o FILE"""
    path: Path = options.text

    def load(name: str) -> bytes:
        return read_bytes(path.parent / name, MAX_FILE)

    try:
        text = read_bytes(path, MAX_TEXT).decode()
        data = container.write(asm.parse(text, load))
        if not options.raw:
            container.read(data)
    except UnicodeDecodeError:
        raise Failure(INPUT, path, "the text is not UTF-8") from None
    except FormatError as error:
        raise Failure(INPUT, path, f"readers would refuse the file: {error}") from None
    except ValueError as error:
        raise Failure(INPUT, path, str(error)) from None
    write_bytes(options.output, data)
    return OK


def _load_validator(path: Path) -> Validator:
    try:
        from ._isa import validate_program  # type: ignore[import-not-found]
    except ImportError:
        sentence = (
            "the validator (qbcompile._isa) is not installed: nothing is verified"
        )
        raise Failure(INTERNAL, path, sentence) from None
    validate: Validator = validate_program
    return validate


def _check_hashes(head: dict[str, object], sections: Sequence[Found]) -> list[str]:
    problems = []
    content = hashlib.sha256()
    for found in sections:
        digest = hashlib.sha256(found.data).digest()
        if digest != found.sha256:
            problems.append(f"section {found.name}: the SHA-256 is wrong")
        content.update(found.kind + found.instance.to_bytes(4, "little") + digest)
    if head["content_id"] != content.digest():
        problems.append("header: the content_id is wrong")
    return problems


def _check_programs(sections: Sequence[Found], validate: Validator) -> list[str]:
    problems = []
    for found in sections:
        if found.kind != b"PROG":
            continue
        rule, command, operand, limit = validate(bytes(found.data))
        if rule:
            where = "" if command == isa.NONE32 else f", command {command}"
            problems.append(
                f"{found.name} is refused by rule V{rule:02}{where}, "
                f"operand {operand}, limit {limit}"
            )
    return problems


def check_bundles(file: container.File, sections: Sequence[Found]) -> list[str]:
    """FM21: programs of a bundle are equal but for core_mode."""
    mode = isa.PROGRAM.fields["core_mode"].offset
    programs = []
    for found in sections:
        if found.kind == b"PROG":
            data = bytearray(found.data)
            data[mode : mode + 4] = bytes(4)
            programs.append(data)
    return [
        f"bundle {index}: its programs differ in more than core_mode"
        for index, bundle in enumerate(file.bundles)
        if len({bytes(programs[n]) for n in bundle.program if n < len(programs)}) > 1
    ]


def run_verify(options: argparse.Namespace) -> int:
    """verify FILE"""
    path: Path = options.file
    data = read_bytes(path, MAX_FILE)
    if data[:8] != MAGIC:
        read_file(path)  # refuses it, and says what it is
    validate = _load_validator(path)
    try:
        head, sections = read_sections(data)
        problems = _check_hashes(head, sections) + _check_programs(sections, validate)
        if not problems:
            problems = check_bundles(container.read(data), sections)
    except FormatError as error:
        problems = [str(error)]
    for problem in problems:
        sys.stderr.write(f"{show(path)}: error[{VERIFY}]: {problem}\n")
    if problems:
        return VERIFY
    print(f"{show(path)}: ok")
    return OK


def run_strip(options: argparse.Namespace) -> int:
    """strip FILE -o FILE"""
    _, file = read_file(options.file)
    for program in file.programs:
        program.debug = []
        for tensor in program.tensors:
            tensor.name = ""
        for command in program.commands:
            command.debug = 0
    write_file(options.output, file, options.file)
    return OK


def run_diff(options: argparse.Namespace) -> int:
    """diff A B"""
    texts, contents, weights = [], [], []
    for path in (options.a, options.b):
        data, file = read_file(path)
        texts.append(asm.dump(file, "weights", find_notes(data, file)).splitlines())
        contents.append(data)
        weights.append(file.weights)
    if contents[0] == contents[1]:
        return OK
    names = (str(options.a), str(options.b))
    for line in difflib.unified_diff(texts[0], texts[1], *names, lineterm=""):
        print(line)
    if weights[0] != weights[1]:
        digests = [hashlib.sha256(part).hexdigest() for part in weights]
        for sign, part, digest in zip("-+", weights, digests):
            print(f"{sign}weights: {len(part)} bytes, SHA-256 {digest}")
    if texts[0] == texts[1] and weights[0] == weights[1]:
        print("the files say the same in different bytes")
    return VERIFY


def run_add_section(options: argparse.Namespace) -> int:
    """add-section FILE KIND DATA"""
    kind: str = options.kind
    if not re.fullmatch("[ -~]{4}", kind) or kind.encode() in KINDS:
        raise Failure(
            USAGE, options.file, "KIND is four ASCII characters, no known kind"
        )
    _, file = read_file(options.file)
    data = read_bytes(options.data, MAX_FILE)
    if not data:
        raise Failure(INPUT, options.data, "a section cannot be empty")
    file.extra.append(
        container.Section(kind.encode(), data, 1 if options.required else 0)
    )
    write_file(options.output or options.file, file, options.file)
    return OK


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="qbm", description="Tool for .qbm files.")
    parser.add_argument("--version", action="version", version=f"qbm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], words: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=words, description=words)
        command.set_defaults(run=run)
        return command

    def output(command: argparse.ArgumentParser, required: bool, name: str) -> None:
        command.add_argument(
            "-o", dest="output", type=Path, required=required, metavar=name
        )

    command = add("dump", run_dump, "Shows a file as text.")
    command.add_argument("file", type=Path, metavar="FILE")
    output(command, False, "TEXT")
    command = add("asm", run_asm, "Makes a file of a text.")
    command.add_argument("text", type=Path, metavar="TEXT")
    output(command, True, "FILE")
    command.add_argument(
        "--raw", action="store_true", help="write it even if readers refuse it"
    )
    command = add("verify", run_verify, "Checks everything; exit code 9 if refused.")
    command.add_argument("file", type=Path, metavar="FILE")
    command = add("strip", run_strip, "Leaves out debug entries and tensor names.")
    command.add_argument("file", type=Path, metavar="FILE")
    output(command, True, "FILE")
    command = add("diff", run_diff, "Compares two files; exit code 9 if they differ.")
    command.add_argument("a", type=Path, metavar="A")
    command.add_argument("b", type=Path, metavar="B")
    command = add("add-section", run_add_section, "Adds a section of unknown kind.")
    command.add_argument("file", type=Path, metavar="FILE")
    command.add_argument("kind", metavar="KIND")
    command.add_argument("data", type=Path, metavar="DATA")
    command.add_argument(
        "--required", action="store_true", help="readers that do not know it refuse"
    )
    output(command, False, "FILE")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the tool; the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        return failure.code
    except OSError as error:  # files are handled above: this is stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"stdout: error[{OUTPUT}]: {error.strerror}\n")
        return OUTPUT
    except Exception as error:
        text = f"error[{INTERNAL}]: {type(error).__name__}: {error}; please report this"
        sys.stderr.write(f"qbm {options.command}: {text}\n")
        return INTERNAL


if __name__ == "__main__":
    sys.exit(main())
