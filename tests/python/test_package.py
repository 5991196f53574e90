# SPDX-License-Identifier: MIT
"""The package: names, import, module functions, exit, other interpreters."""

import builtins
import importlib
import json
import os
import shutil
import subprocess
import textwrap
import types
from pathlib import Path

import pytest
from runtime_cases import COPY64, TOP, count_fds, run_child

qbruntime = pytest.importorskip("qbruntime")

MODULES = (
    "accelerator",
    "future",
    "model",
    "model_variant_handle",
    "pinned_memory",
    "type",
    "version",
)


def load_module(name):
    return importlib.import_module(f"qbruntime.{name}")


def test_the_package_is_called_qbruntime():
    assert qbruntime.__name__ == "qbruntime"
    assert isinstance(load_module("qbruntime"), types.ModuleType)


# Q007
@pytest.mark.parametrize("name", MODULES)
def test_the_same_object_is_reached_by_every_path(name):
    module = load_module(name)
    for public in module.__all__:
        assert getattr(module, public) is getattr(qbruntime, public)
    assert load_module("type").CoreId is load_module("model").CoreId


# Q005
@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_its_public_names_and_no_others(name):
    module = load_module(name)
    ours = {item for item in vars(module) if not item.startswith("_")}
    assert ours == {item for item in module.__all__ if not item.startswith("_")}


# Q005
def test_every_public_name_is_in_the_root_and_in_a_module():
    from qbruntime import model, type

    for names, module in (
        ("Model load", model),
        ("ModelConfig CoreMode Cluster Core CoreId get_available_device_numbers", type),
        ("get_model_summary", type),
    ):
        for item in names.split():
            assert getattr(module, item) is getattr(qbruntime, item)
    modules = [load_module(name) for name in (*MODULES, "qbruntime")]
    for item in qbruntime.__all__:
        assert item == "version" or any(hasattr(module, item) for module in modules)


def test_every_public_name_exists():
    for public in qbruntime.__all__:
        assert getattr(qbruntime, public) is not None


# Q008 Q009 Q749 Q820
def test_import_leaves_the_process_as_it_was():
    child = run_child(
        """
        import os, sys
        def libraries():
            return {line.split()[-1] for line in open("/proc/self/maps")}
        before = os.listdir("/proc/self/fd")
        loaded = libraries()
        import qbruntime
        assert qbruntime.get_available_device_numbers() == []
        assert qbruntime.get_available_devices() == []
        assert os.listdir("/proc/self/fd") == before
        assert len(os.listdir("/proc/self/task")) == 1
        assert "numpy" not in sys.modules
        new = " ".join(libraries() - loaded)
        assert "libcuda" not in new
        # a sanitizer's runtime brings its own
        assert "libstdc++" not in new or "libubsan" in new
        assert "qbruntime" in new
        """,
        QBRUNTIME_SOFT_DEVICES="none",
    )
    assert child.stdout == child.stderr == ""


# Q008: bytecode is Python's own
def test_import_creates_no_file(tmp_path):
    package = Path(qbruntime.__file__).parent
    place, bytecode = tmp_path / "place", tmp_path / "bytecode"
    place.mkdir()
    before = sorted(package.rglob("*"))
    run_child(
        "import os, sys; os.chdir(sys.argv[1]); import qbruntime",
        place,
        HOME=str(place),
        TMPDIR=str(place),
        XDG_CACHE_HOME=str(place),
        PYTHONDONTWRITEBYTECODE="",
        PYTHONPYCACHEPREFIX=str(bytecode),
    )
    assert list(place.iterdir()) == [] and sorted(package.rglob("*")) == before
    assert list(bytecode.rglob("pinned_memory.*.pyc"))


# Q749
def test_opening_starts_no_thread_and_ours_have_names():
    run_child(
        """
        import os, sys, threading, qbruntime
        def names():
            found = []
            for task in os.listdir("/proc/self/task"):
                try:
                    with open(f"/proc/self/task/{task}/comm") as file:
                        found.append(file.read().strip())
                except (FileNotFoundError, ProcessLookupError):
                    pass  # it was joined, and has gone meanwhile
            return found
        acc = qbruntime.Accelerator()
        assert len(names()) == 1
        model = qbruntime.Model(sys.argv[1])
        model.launch(acc)
        x = [model.allocate_inputs() for _ in range(4)]
        def work(x):
            for _ in range(100):
                model.infer_pinned_memory(x)
        threads = [threading.Thread(target=work, args=(i,)) for i in x]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        ours = [name for name in names() if not name.startswith("python")]
        assert all(name.startswith("qbrt-") for name in ours), ours
        """,
        COPY64,
    )


# Q012 Q170 Q171 Q172
def test_versions():
    assert qbruntime.__version__ == qbruntime.version.__version__
    assert qbruntime.__version__.count(".") == 2
    assert qbruntime.__vendor__ == "qbruntime"
    assert qbruntime.__product__ == "universal"
    assert qbruntime.__api_version__ == "1.4"


# Q171: HEAD may have gone on since the tree was configured
def test_the_commit_is_one_of_this_tree():
    commit = qbruntime.__git_version__
    git = ["git", "-C", str(TOP), "rev-parse", "--short=12", "--verify", "-q"]

    def ask(name):
        return subprocess.run(
            [*git, f"{name}^{{commit}}"], capture_output=True, text=True
        ).stdout.strip()

    # neither a release in somebody's checkout nor a tree that Git does not trust
    is_checkout = shutil.which("git") and (TOP / ".git").exists() and ask("HEAD")
    assert commit == (ask(commit) if is_checkout else "")
    assert bool(commit) == bool(is_checkout)


# Q014: programs expect three that NumPy may have too
def test_a_star_import_shadows_nothing():
    numpy = pytest.importorskip("numpy")
    names = {}
    exec("from qbruntime import *", names)
    ours = set(names) - {"__builtins__"}
    assert not {"type", "model", "future", "accelerator"} & ours
    assert not ours & set(dir(builtins))
    assert ours & set(numpy.__all__) <= {"load", "version", "__version__"}
    assert {"load", "version", "__version__", "Accelerator"} <= ours


# Q179 Q180 Q883
def test_devices_by_number_and_name():
    child = run_child(
        """
        import qbruntime as q
        print(q.get_available_device_numbers(), q.get_available_devices())
        print(q.get_available_device_numbers("aries"))
        print(q.get_available_device_numbers(device_name="REGULUS"))
        print(q.get_available_device_numbers("regulus-usb"))
        try:
            q.get_available_device_numbers("auto")
        except q.QbDeviceNotFoundError as error:
            print(error.status)
        try:
            q.Accelerator(0)
        except q.QbDeviceNotFoundError as error:
            print(error.status)
        """,
        QBRUNTIME_SOFT_DEVICES="aries:2,regulus:1",
    )
    assert child.stdout.splitlines() == [
        "[0, 1, 0] ['aries-rb', 'regulus-ra']",
        "[0, 1]",
        "[0]",
        "[]",
        "StatusCode.Acc_AmbiguousDeviceName",
        "StatusCode.Acc_AmbiguousDeviceName",
    ]
    for bad in (1, b"aries", ["aries"]):
        with pytest.raises(TypeError):
            qbruntime.get_available_device_numbers(bad)


def test_the_log_level_is_set():
    child = run_child(
        """
        import qbruntime
        qbruntime.set_log_level(qbruntime.LogLevel.Off)
        qbruntime.set_log_level(1)
        for bad in (0, 7, -1, 2 ** 70):
            try:
                qbruntime.set_log_level(bad)
            except qbruntime.QbInvalidArgumentError:
                print("refused")
        try:
            qbruntime.set_log_level("debug")
        except TypeError:
            print("no int")
        """
    )
    assert child.stdout.split() == ["refused"] * 4 + ["no", "int"]


# Q176 Q177 Q182
def test_a_trace_is_started_once_and_complete_after_its_end(tmp_path, launched):
    path = tmp_path / "trace.json"
    launched.infer_speedrun()
    fds = count_fds()
    assert qbruntime.start_tracing_events(tmp_path / "missing/trace.json") is False
    assert qbruntime.start_tracing_events(path) is True
    assert qbruntime.start_tracing_events(str(tmp_path / "other.json")) is False
    launched.infer_speedrun()
    assert qbruntime.stop_tracing_events() is None
    names = {event["name"] for event in json.loads(path.read_text("utf-8"))}
    assert {"submit", "run"} <= names
    qbruntime.stop_tracing_events()
    assert count_fds() == fds and os.listdir(tmp_path) == ["trace.json"]


def test_the_interpreter_exits_with_everything_alive():
    child = run_child(
        """
        import sys, threading, qbruntime
        acc = qbruntime.Accelerator()
        model = qbruntime.Model(sys.argv[1])
        model.launch(acc)
        x = model.allocate_inputs()
        y = model.infer_pinned_memory(x)
        view = y[0][1:]
        exported = memoryview(x[0])
        access = y[0].cpu_access()
        access.__enter__()
        cycle = [acc, model, x, y]
        cycle.append(cycle)
        def work():
            while True:
                model.infer_pinned_memory(x, model.allocate_outputs())
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        while model.counters()["completed"] < 20:
            pass
        """,
        COPY64,
    )
    assert child.stdout == child.stderr == ""


# Q884
def test_a_machine_without_hardware_has_one_software_device():
    if qbruntime.Accelerator().info().kind != "software":
        pytest.skip("this machine has hardware")
    assert qbruntime.get_available_devices() == ["aries-rb"]
    assert qbruntime.get_available_device_numbers() == [0]


# Q746
def test_another_interpreter_imports_it_too():
    code = """
        import qbruntime
        acc = qbruntime.Accelerator()
        pinned = acc.allocate_pinned_memory(4)
        memoryview(pinned)[0] = 2.0
        assert memoryview(pinned)[0] == 2.0
        try:
            qbruntime.Model("/nonexistent")
        except qbruntime.QbModelFileError as error:
            assert error.status is qbruntime.StatusCode(3)
        """
    child = run_child(
        """
        import _xxsubinterpreters as interpreters
        import sys, qbruntime
        before = qbruntime.Accelerator()
        for _ in range(3):
            other = interpreters.create(isolated=False)
            interpreters.run_string(other, sys.argv[1])
            interpreters.destroy(other)
        print(before.get_device_name())
        """,
        textwrap.dedent(code),
        check=False,
    )
    if "No module named '_xxsubinterpreters'" in child.stderr:
        pytest.skip("this Python names its interpreters otherwise")
    assert child.returncode == 0, child.stderr
    assert child.stdout == "aries-rb\n"
