# SPDX-License-Identifier: MIT
"""Files and standard streams, the same for both tools.

Results are written to temporary files and renamed together at the end; what is
no regular file is written in place. No result may be a file that its run
reads. Untrusted words reach stderr escaped, and a stream that is closed or
full leads to an exit code, never to a traceback. Imports nothing but Python.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence, Union

OUTPUT, INTERRUPTED = 8, 130  # exit codes

Name = Union[str, Path]


class Clash(Exception):
    """A result would replace a file of the same run."""


class FileError(Exception):
    """A file or stream cannot be used, for this reason."""

    def __init__(self, name: Name, reason: Union[str, OSError]) -> None:
        broken_pipe = isinstance(reason, BrokenPipeError)
        if isinstance(reason, FileNotFoundError):
            reason = "no such file or folder"
        elif isinstance(reason, OSError):
            reason = reason.strerror or "it cannot be used"
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason
        self.broken_pipe = broken_pipe


def escape(text: object) -> str:
    """For terminals: what is not printable could move the cursor (FM04)."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text)
    )


def _open_regular(name: str, flags: int) -> int:
    # a FIFO without a writer must not block
    handle = os.open(name, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileError(name, "not a regular file")
    return handle


def read_regular(name: Name, most: int) -> bytes:
    """Content of a regular file of at most `most` bytes; FileError."""
    try:
        with open(name, "rb", opener=_open_regular) as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise FileError(name, f"more than {most} bytes")
            return file.read(size)
    except OSError as error:
        raise FileError(name, error) from None


def read_stdin(most: int) -> bytes:
    """All of stdin, or its first bytes, one more than `most`; FileError."""
    if sys.stdin is None:
        raise FileError("stdin", "it is closed")
    data = bytearray()
    stream: Any = sys.stdin.buffer
    try:
        while len(data) <= most:
            part = stream.read1(min(1 << 20, most + 1 - len(data)))
            if not part:
                break
            data += part
    except OSError as error:
        raise FileError("stdin", error) from None
    return bytes(data)


def _identity(name: Name) -> object:
    """Equal for two names of one file. None: writing it destroys nothing."""
    try:
        status = os.stat(name)
    except OSError:
        return os.path.realpath(name)
    if stat.S_ISCHR(status.st_mode):
        return None
    return status.st_dev, status.st_ino


def check_apart(
    inputs: Iterable[tuple[str, Name]], outputs: Iterable[tuple[str, Name]]
) -> None:
    """Clash if an output is an input or another output; each: words, name."""
    known = {_identity(name): words for words, name in inputs}
    for words, name in outputs:
        key = _identity(name)
        if key is None:
            continue
        if key in known:
            raise Clash(f"{words} names {known[key]}: {name}")
        known[key] = f"the file of {words}"


def _is_stream(name: Name) -> bool:
    """Whether to write in place; OSError for what cannot be written at all."""
    if str(name).endswith("/"):
        raise IsADirectoryError(errno.EISDIR, "this names a folder")
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISREG(mode):
        return False
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return True
    raise OSError(errno.EINVAL, "not a regular file")


def _write_beside(target: str, data: bytes) -> str:
    """Name of a new file with these bytes in the folder of target."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".qb")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def write_all(results: Sequence[tuple[Name, bytes]]) -> None:
    """Writes each (name, bytes): all of them, or none and FileError.

    A symbolic link stays, the file that it leads to is replaced.
    """
    renames: list[tuple[str, str]] = []
    streams: list[tuple[Name, bytes]] = []
    name: Name = ""
    try:
        for name, data in results:
            if _is_stream(name):
                streams.append((name, data))
            else:
                target = os.path.realpath(name)
                renames.append((_write_beside(target, data), target))
        for name, data in streams:
            with open(name, "wb") as file:
                file.write(data)
        while renames:
            temporary, name = renames[0]
            os.replace(temporary, name)
            renames.pop(0)
    except OSError as error:
        raise FileError(name, error) from None
    finally:
        for temporary, _ in renames:
            os.unlink(temporary)


def _abandon(stream: Any) -> None:
    """What is still buffered shall not fail again when Python ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def put(data: Union[str, bytes]) -> None:
    """Text or bytes to stdout at once; FileError."""
    if sys.stdout is None:
        raise FileError("stdout", "it is closed")
    stream: Any = sys.stdout if isinstance(data, str) else sys.stdout.buffer
    try:
        stream.write(data)
        sys.stdout.flush()
    except OSError as error:
        _abandon(sys.stdout)
        raise FileError("stdout", error) from None


def tell(text: str) -> None:
    """Text to stderr as it is; nobody can be told when that fails."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _abandon(sys.stderr)


def say(text: object) -> None:
    """A line on stderr."""
    tell(escape(text) + "\n")


def run_tool(function: Callable[[], int]) -> int:
    """The tool's exit code; what it leaves in stdout's buffer has to get out."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = function()
        if sys.stdout is not None:
            put("")
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:  # of a file it is a FileError: this is stdout
        _abandon(sys.stdout)
        failure = FileError("stdout", error)
    except FileError as error:
        failure = error
    if not failure.broken_pipe:
        say(f"{failure.name}: error[{OUTPUT}]: {failure.reason}")
    return OUTPUT
