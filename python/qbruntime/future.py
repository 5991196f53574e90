# SPDX-License-Identifier: MIT
"""Inferences that were queued: Future, and how asyncio waits for one."""

import functools as _functools
import typing as _typing

from .qbruntime import Future

if _typing.TYPE_CHECKING:
    import asyncio
    import collections.abc

__all__ = ["Future"]


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _tell(
    loop: "asyncio.AbstractEventLoop", waiter: "asyncio.Future[None]", _: Future
) -> None:
    try:
        loop.call_soon_threadsafe(_wake, waiter)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _await(
    future: Future,
) -> "collections.abc.Generator[_typing.Any, None, list[_typing.Any]]":
    """Is Future.__await__: without a thread, and without a descriptor."""
    if not future.done():
        import asyncio

        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        future.add_done_callback(_functools.partial(_tell, loop, waiter))
        yield from waiter
    return future.get()
