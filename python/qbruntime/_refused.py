# SPDX-License-Identifier: MIT
"""Names that programs of the vendor's runtime may know and that are not offered.

To read or assign one raises AttributeError with a sentence: what to use instead,
or that nothing replaces it. hasattr() is False.
"""

from typing import Any, NoReturn

_LATENCIES = "latencies cannot be set, and nothing replaces it"
_SCHEDULE = "jobs run in the order in which they come, and nothing replaces it"
_MAINTENANCE = "there is no maintenance to choose, and nothing replaces it"
_COUNTERS = "use counters(), which has queue_time_ns and device_time_ns"

# of qbruntime and qbruntime.type
MODULE = {
    "LatencySet": _LATENCIES,
    "LatencySetPolicy": _LATENCIES,
    "MaintenancePolicy": _MAINTENANCE,
    "SchedulePolicy": _SCHEDULE,
}
MODEL = {
    "get_latency_consumed": _COUNTERS,
    "get_latency_finished": _COUNTERS,
    "get_latency_set_policy": _LATENCIES,
    "get_maintenance_policy": _MAINTENANCE,
    "get_schedule_policy": _SCHEDULE,
    "reset_cache_memory": "use cache_size=0, with which a call begins afresh",
}
MODEL_CONFIG = {
    "early_latencies": _LATENCIES,
    "finish_latencies": _LATENCIES,
    "latency_set_policy": _LATENCIES,
    "maintenance_policy": _MAINTENANCE,
    "schedule_policy": _SCHEDULE,
}


class _Refused:
    """An attribute that is none, of the class neither."""

    def __init__(self, owner: str, name: str, sentence: str) -> None:
        self._name = name
        self._text = f"{owner} has no {name}: {sentence}"

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise AttributeError(self._text, name=self._name)

    def __set__(self, instance: object, value: object) -> NoReturn:
        raise AttributeError(self._text, name=self._name)


def refuse_attributes(cls: type, names: dict[str, str]) -> None:
    for name, sentence in names.items():
        setattr(cls, name, _Refused(cls.__name__, name, sentence))


def make_getattr(module: str) -> Any:
    """The __getattr__ of a module."""

    def __getattr__(name: str) -> NoReturn:
        text = f"module {module!r} has no attribute {name!r}"
        if name in MODULE:
            text = f"{module} has no {name}: {MODULE[name]}"
        raise AttributeError(text, name=name)

    return __getattr__
