# SPDX-License-Identifier: MIT
"""What the compiler tells people: --report, --explain, --list-ops (QC12).

Schema `qbcompile/report/1`. Nothing in the compiler reads a report; a number
that stands in it is one that the passes computed, none is worked out here
twice.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Iterator, Optional

from . import isa_tables as isa
from . import ops
from .container import File, Io
from .graph import Graph, Problem, Source
from .plan import Plan
from .program import Program, count_bytes

SCHEMA = "qbcompile/report/1"
MODE_NAMES = {isa.SINGLE: "single", isa.MULTI: "multi"}
MODE_NAMES.update({isa.GLOBAL4: "global4", isa.GLOBAL8: "global8"})


@dataclasses.dataclass
class Run:
    """What one run of the compiler has found out so far."""

    file: str
    options: str
    sha256: str = ""
    sources: list[Source] = dataclasses.field(default_factory=list)
    graph: Optional[Graph] = None
    plan: Optional[Plan] = None
    result: Optional[File] = None
    file_bytes: int = 0
    warnings: list[str] = dataclasses.field(default_factory=list)
    problems: list[Problem] = dataclasses.field(default_factory=list)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)


def commands_text(source: Source) -> str:
    first, last = source.commands[0], source.commands[-1]
    if source.rules:
        return f"fused into command {last} ({', '.join(source.rules)})"
    return f"command {first}" if first == last else f"commands {first}..{last}"


def fate(source: Source, compiled: bool) -> str:
    """What became of a node of the source."""
    if source.refused:
        return f"refused: {source.refused}"
    if source.commands:
        return commands_text(source)
    if source.rules:
        return f"fused ({', '.join(source.rules)})"
    return source.fate or ("not needed" if compiled else "supported")


def explain(run: Run) -> Iterator[str]:
    """One line per node, in the order of the source."""
    for source in run.sources:
        text = f"{source.name} {source.op}: {fate(source, run.result is not None)}"
        yield "".join(c if c.isprintable() else "_" for c in text)


def io_entry(io: Io) -> dict[str, Any]:
    return {
        "name": io.name,
        "dtype": isa.DTYPE_NAMES[io.device_dtype],
        "shape": list(io.shape),
        "source_shape": list(io.source_shape or ()),
        "layout": "hwc" if io.layout else "plain",
    }


def variant_entry(file: File, plan: Plan) -> dict[str, Any]:
    program: Program = file.programs[0]
    counts = collections.Counter(command.opcode for command in program.commands)
    mask = file.bundles[0].mode_mask
    bundle = {
        "modes": [name for bit, name in MODE_NAMES.items() if mask >> bit & 1],
        "commands": len(program.commands),
        "by_opcode": dict(sorted(counts.items())),
        "macs": program.mac_count,
        "bytes": count_bytes(program),
        "scratch": plan.scratch,
        "lower_bound": plan.lower_bound,
    }
    inputs = [io_entry(io) for io in file.ios if io.role == isa.ROLE_INPUT]
    outputs = [io_entry(io) for io in file.ios if io.role == isa.ROLE_OUTPUT]
    return {
        "name": file.variants[0].name,
        "inputs": inputs,
        "outputs": outputs,
        "states": [],
        "bundles": [bundle],
    }


def report(run: Run) -> dict[str, Any]:
    """The whole report; of a refused model what is known, and the errors."""
    graph = run.graph
    compiled = run.result is not None
    nodes = [
        {
            "name": source.name,
            "op": source.op,
            "fate": fate(source, compiled),
            "commands": sorted(set(source.commands)),
        }
        for source in run.sources
    ]
    variants = []
    if run.result is not None and run.plan is not None:
        variants.append(variant_entry(run.result, run.plan))
    return {
        "schema": SCHEMA,
        "source": {
            "file": run.file,
            "sha256": run.sha256,
            "opset": graph.opset if graph else None,
            "nodes": len(run.sources),
        },
        "options": run.options,
        "variants": variants,
        "weights_bytes": len(run.result.weights) if run.result else None,
        "file_bytes": run.file_bytes if compiled else None,
        "nodes": nodes,
        "fusions": dict(sorted(graph.fused.items())) if graph else {},
        "refused_fusions": graph.not_fused if graph else [],
        "quantisation": [],
        "warnings": run.warnings,
        "errors": [{"code": p.code, "text": p.text} for p in run.problems],
        "check": None,
        "seconds": {name: round(s, 6) for name, s in run.seconds.items()},
    }


def op_entries() -> list[dict[str, Any]]:
    entries = []
    for name, known in sorted(ops.OPS.items()):
        oldest = max(known.versions[0], ops.OLDEST_OPSET)
        types = known.types or "constants only"
        entries.append(
            {
                "op": name,
                "since": oldest,
                "until": ops.NEWEST_OPSET,
                "versions": list(known.versions),
                "types": types.split() if known.types else [],
                "restrictions": known.note or ("" if known.types else types),
            }
        )
    return entries


def op_lines() -> Iterator[str]:
    """--list-ops for people."""
    for entry in op_entries():
        opsets = f"{entry['since']}..{entry['until']}"
        types = ",".join(entry["types"]) or "-"
        line = (
            f"{entry['op']:<20} opset {opsets:<7} {types:<22} {entry['restrictions']}"
        )
        yield line.rstrip()
