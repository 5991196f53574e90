# SPDX-License-Identifier: MIT
"""The stubs against the running module: names, parameters, defaults, values."""

import ast
import inspect
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import _refused, payload, streams  # noqa: E402

FOLDER = Path(qbruntime.__file__).parent
STUBS = {
    "qbruntime": ast.parse((FOLDER / "qbruntime.pyi").read_text(encoding="utf-8")),
    "type": ast.parse((FOLDER / "type.pyi").read_text(encoding="utf-8")),
}


def definitions(node):
    """Functions and classes of a stub, or of a class in one; overloads as a list."""
    found = {}
    for item in node.body:
        if isinstance(item, ast.If):  # by version
            continue
        if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
            found.setdefault(item.name, []).append(item)
    return found


def public(names):
    return {name for name in names if not name.startswith("_")}


def offered(cls):
    """Without the names that raise when they are read."""
    return {name for name in public(vars(cls)) if hasattr(cls, name)}


def describe(function):
    """Name, kind and default of each parameter of a stub's function."""
    arguments = function.args
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults))
    defaults += [ast.unparse(default) for default in arguments.defaults]
    described = []
    for number, (argument, default) in enumerate(zip(positional, defaults)):
        kind = "POSITIONAL_OR_KEYWORD"
        if number < len(arguments.posonlyargs):
            kind = "POSITIONAL_ONLY"
        described.append((argument.arg, kind, default))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        text = ast.unparse(default) if default else None
        described.append((argument.arg, "KEYWORD_ONLY", text))
    return [item for item in described if item[0] != "self"]


def describe_runtime(function):
    described = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        text = None if default is parameter.empty else repr(default)
        described.append((parameter.name, parameter.kind.name, text))
    return [item for item in described if item[0] != "self"]


def is_property(function):
    return any("property" in ast.unparse(item) for item in function.decorator_list)


def functions_of(stub, module):
    """Each function that a stub has once: its name, the stub's and ours."""
    for name, (item, *others) in definitions(stub).items():
        if isinstance(item, ast.FunctionDef):
            yield name, item, getattr(module, name)
            continue
        assert not others
        for method, variants in definitions(item).items():
            known = len(variants) == 1 and not is_property(variants[0])
            if known and not method.startswith("__"):
                ours = getattr(getattr(module, name), method)
                yield f"{name}.{method}", variants[0], ours


# Q010
@pytest.mark.parametrize("name", STUBS)
def test_every_public_name_stands_in_a_stub_and_in_the_module(name):
    module = import_module(f"qbruntime.{name}")
    ours = public(vars(module))
    imported = {
        alias.asname or alias.name
        for item in STUBS[name].body
        if isinstance(item, ast.ImportFrom)
        for alias in item.names
        if alias.asname
    }
    assert public(definitions(STUBS[name])) | imported == ours
    assert (FOLDER / "py.typed").exists()


# Q010
@pytest.mark.parametrize("name", STUBS)
def test_every_member_of_a_class_stands_in_its_stub(name):
    module = import_module(f"qbruntime.{name}")
    for cls, (item,) in definitions(STUBS[name]).items():
        if not isinstance(item, ast.ClassDef) or cls.startswith("_"):
            continue
        ours = offered(getattr(module, cls))
        fields = {
            target.target.id
            for target in item.body
            if isinstance(target, ast.AnnAssign)
        }
        values = {
            target.targets[0].id: ast.literal_eval(target.value)
            for target in item.body
            if isinstance(target, ast.Assign)
        }
        assert public({*definitions(item), *fields, *values}) == ours, cls
        for member, value in values.items():
            assert getattr(module, cls)[member].value == value


# Q010
@pytest.mark.parametrize("name", STUBS)
def test_parameters_and_defaults_are_those_of_the_stub(name):
    module = import_module(f"qbruntime.{name}")
    count = 0
    for label, item, ours in functions_of(STUBS[name], module):
        assert describe_runtime(ours) == describe(item), label
        count += 1
    assert count > 5


# Q010
def test_the_overloads_of_the_accelerator():
    (cls,) = definitions(STUBS["qbruntime"])["Accelerator"]
    forms = [describe(item) for item in definitions(cls)["__init__"]]
    kind = "POSITIONAL_OR_KEYWORD"
    assert forms == [
        [("dev_no", kind, "None")],
        [("device_name", kind, None), ("dev_no", kind, "None")],
    ]
    (model,) = definitions(STUBS["qbruntime"])["Model"]
    (init,) = definitions(model)["__init__"]
    assert describe(init) == describe_runtime(qbruntime.Model)


def test_every_call_says_what_it_does():
    names = "Accelerator Future Model ModelConfig ModelVariantHandle PinnedMemory"
    classes = [getattr(qbruntime, name) for name in names.split()]
    for cls in [*classes, payload.PayloadType, payload.Tensor, streams.Device]:
        assert cls.__doc__
        for name in offered(cls):
            assert getattr(cls, name).__doc__, name
    for name in qbruntime.__all__:
        assert name == "version" or getattr(qbruntime, name).__doc__ is not None


# Q010 Q853
@pytest.mark.parametrize(
    "arguments",
    [
        ("mypy", "--strict", "-p", "qbruntime"),
        ("mypy.stubtest", "qbruntime", "--allowlist", "refused"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_mypy_agrees(arguments, tmp_path):
    pytest.importorskip("mypy")
    shutil.copytree(FOLDER, tmp_path / "qbruntime")
    # they are there to raise, and no type checker is to take them
    names = "|".join([*_refused.MODEL, *_refused.MODEL_CONFIG])
    allowed = rf"qbruntime\..*\.({names})"
    (tmp_path / "refused").write_text(allowed, encoding="ascii")
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(tmp_path), MYPY_CACHE_DIR=os.devnull),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
