# SPDX-License-Identifier: MIT
"""qbm: shows, assembles, checks, changes and runs .qbm files (section 16).

Exit codes are those of qbcompile: 0 ok, 1 internal, 2 usage, 3 input, 8
output, 9 verify failed (or diff found differences), 130 interrupted. An error
is one sentence on stderr; nothing that a file holds can cause a traceback.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Callable, Iterable, NoReturn, Optional, Sequence

from . import __version__, asm, container, files, rules
from . import isa_tables as isa
from .files import OUTPUT, Name
from .program import FormatError, binding_size
from .records import MAGIC
from .sections import KINDS, MAX_FILE, Found, read_sections

OK, INTERNAL, USAGE, INPUT, VERIFY = 0, 1, 2, 3, 9
MAX_TEXT = 256 << 20
RESERVED = (b"SIGN", b"PACK")  # kinds that nothing reads or writes yet (3.1)

Validator = Callable[[bytes], tuple[int, int, int, int]]


class Failure(Exception):
    """Ends the tool with this exit code and sentence."""

    def __init__(self, code: int, path: Name, sentence: object) -> None:
        super().__init__(f"{path}: error[{code}]: {sentence}")
        self.code = code


def read_bytes(path: Path, most: int) -> bytes:
    """Content of a regular file of at most `most` bytes."""
    try:
        return files.read_regular(path, most)
    except files.FileError as error:
        raise Failure(INPUT, path, error.reason) from None


def check_apart(inputs: Iterable[Name], outputs: Iterable[tuple[str, Name]]) -> None:
    """No result may replace what is read, or another result."""
    try:
        files.check_apart([("a file that is read", name) for name in inputs], outputs)
    except files.Clash as error:
        raise Failure(USAGE, "qbm", error) from None


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
    files.write_all([(path, data)])


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
    apart = len(file.weights) > asm.MAX_HEX
    if options.output is None:
        weights = f"{options.file.stem}.wght"
        files.put(asm.dump(file, weights, find_notes(data, file)))
        if apart:
            files.say(f"{weights}: not written, as there is no -o")
        return OK
    output: Path = options.output
    weights = f"{output.stem}.wght"
    beside = [("the weights file of -o", output.parent / weights)] if apart else []
    check_apart([options.file], [("-o", output), *beside])
    text = asm.dump(file, weights, find_notes(data, file)).encode()
    files.write_all([(output, text), *((name, file.weights) for _, name in beside)])
    return OK


def run_asm(options: argparse.Namespace) -> int:
    """asm TEXT -o FILE"""
    path: Path = options.text
    check_apart([path], [("-o", options.output)])

    def load(name: str) -> bytes:
        weights = path.parent / name
        folder = os.path.realpath(path.parent)
        if os.path.dirname(os.path.realpath(weights)) != folder:
            raise Failure(INPUT, weights, "a link that leads out of the text's folder")
        check_apart([weights], [("-o", options.output)])
        return read_bytes(weights, MAX_FILE)

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
    files.write_all([(options.output, data)])
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


def check_bindings(file: container.File) -> list[str]:
    """Sizes and aliases of inputs and outputs, in programs and in IOTB."""
    problems = []
    for number, program in enumerate(file.programs):
        for index, binding in enumerate(program.bindings):
            if binding.kind not in (isa.INPUT, isa.OUTPUT):
                continue
            io, alias = file.ios[binding.io], isa.NONE32
            if binding.alias < len(program.bindings):
                alias = program.bindings[binding.alias].io
            size = binding_size(program, index)
            if (size, alias) != (rules.io_size(file, io), io.alias):
                problems.append(
                    f"PROG {number}: size or alias of binding {index} is not that of "
                    f"IOTB entry {binding.io}"
                )
    return problems


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
            file = container.read(data)
            problems = check_bundles(file, sections) + check_bindings(file)
    except FormatError as error:
        problems = [str(error)]
    for problem in problems:
        files.say(f"{path}: error[{VERIFY}]: {problem}")
    if problems:
        return VERIFY
    files.put(f"{files.escape(path)}: ok\n")
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
    names = (files.escape(options.a), files.escape(options.b))
    lines = list(difflib.unified_diff(texts[0], texts[1], *names, lineterm=""))
    if weights[0] != weights[1]:
        digests = [hashlib.sha256(part).hexdigest() for part in weights]
        for sign, part, digest in zip("-+", weights, digests):
            lines.append(f"{sign}weights: {len(part)} bytes, SHA-256 {digest}")
    if texts[0] == texts[1] and weights[0] == weights[1]:
        lines.append("the files say the same in different bytes")
    files.put("".join(f"{line}\n" for line in lines))
    return VERIFY


def run_add_section(options: argparse.Namespace) -> int:
    """add-section FILE KIND DATA [-o FILE]"""
    kind = options.kind.encode(errors="replace")
    if not re.fullmatch(b"[ -~]{4}", kind) or kind in (*KINDS, *RESERVED):
        sentence = "KIND is four ASCII characters, no known or reserved kind"
        raise Failure(USAGE, "qbm", sentence)
    check_apart([options.data], [("the result", options.output or options.file)])
    _, file = read_file(options.file)
    data = read_bytes(options.data, MAX_FILE)
    if not data:
        raise Failure(INPUT, options.data, "a section cannot be empty")
    file.extra.append(container.Section(kind, data, 1 if options.required else 0))
    write_file(options.output or options.file, file, options.file)
    return OK


def split_pairs(option: str, texts: Sequence[str]) -> dict[str, Path]:
    """The NAME=FILE of an option that may be given again."""
    pairs: dict[str, Path] = {}
    for text in texts:
        name, _, path = text.rpartition("=")
        if not name or not path or name in pairs:
            sentence = f"{option} is NAME=ARRAY.npy, once a name: {text}"
            raise Failure(USAGE, "qbm", sentence)
        pairs[name] = Path(path)
    return pairs


def run_run(options: argparse.Namespace) -> int:
    """run FILE [--input N=x.npy]... [--stop-after K] [--tensor T=out.npy]..."""
    path: Path = options.file
    given = split_pairs("--input", options.input)
    shown = split_pairs("--tensor", options.tensor)
    results = [(f"--tensor {name}", file) for name, file in shown.items()]
    check_apart([path, *given.values()], results)
    try:
        import qbruntime

        from . import cut, run
    except ImportError as error:
        sentence = f"the Python package qbruntime is needed to run a model: {error}"
        raise Failure(INTERNAL, path, sentence) from None
    try:
        if shown or options.stop_after is not None:
            _, file = read_file(path)
            lines, arrays = run.run_cut(file, options.stop_after, list(shown), given)
        else:
            lines, arrays = run.run(path, given)
    except (run.BadInput, cut.Refused, qbruntime.QbModelFileError) as error:
        raise Failure(INPUT, path, error) from None
    except qbruntime.QbRuntimeError as error:
        raise Failure(INTERNAL, path, error) from None
    if shown:
        files.write_all(list(zip(shown.values(), arrays[-len(shown) :])))
    files.put("".join(f"{line}\n" for line in lines))
    return OK


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Failure(USAGE, self.prog, f"{message}; see {self.prog} --help")


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(prog="qbm", description="Tool for .qbm files.")
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
    command = add("run", run_run, "Runs a model; the digest of each output.")
    command.add_argument("file", type=Path, metavar="FILE")
    repeated = {"action": "append", "default": [], "metavar": "NAME=ARRAY.npy"}
    command.add_argument("--input", help="what is not given is zeros", **repeated)
    command.add_argument(
        "--stop-after", type=int, metavar="K", help="the last command that runs"
    )
    command.add_argument("--tensor", help="writes an inner tensor", **repeated)
    command = add("add-section", run_add_section, "Adds a section of unknown kind.")
    command.add_argument("file", type=Path, metavar="FILE")
    command.add_argument("kind", metavar="KIND")
    command.add_argument("data", type=Path, metavar="DATA")
    command.add_argument(
        "--required", action="store_true", help="readers that do not know it refuse"
    )
    output(command, False, "FILE")
    return parser


def run_arguments(arguments: Optional[Sequence[str]]) -> int:
    """The exit code for these arguments."""
    try:
        options = make_parser().parse_args(arguments)
        code: int = options.run(options)
        return code
    except Failure as failure:
        files.say(failure)
        return failure.code
    except SystemExit as stop:  # --help, --version
        return int(stop.code or 0)
    except files.FileError as error:  # of a result
        if not error.broken_pipe:
            files.say(Failure(OUTPUT, error.name, error.reason))
        return OUTPUT
    except OSError:  # of stdout, while argparse writes to it
        raise
    except Exception as error:
        text = f"error[{INTERNAL}]: {type(error).__name__}: {error}; please report this"
        files.say(f"qbm: {text}")
        return INTERNAL


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the tool; the exit code."""
    return files.run_tool(lambda: run_arguments(arguments))


if __name__ == "__main__":
    sys.exit(main())
