# SPDX-License-Identifier: MIT
"""The command line: what is refused, help, and the one table (I10, I29, 12.5)."""

import json
import re
import shlex
import subprocess
import sys

import cases
import pytest

# the words, and what the sentence must name
WRONG = [
    ("lst", "list"),
    ("shw", "show"),
    ("LIST", "list"),
    ("lists", "list"),
    ("sum", "summary"),
    ("versionn", "version"),
    ("docter", "doctor"),
    ("m0del x", "model"),
    ("shema", "schema"),
    ("cap", "caps"),
    ("caps 0 1", "takes one"),
    ("caps 0 -d 0", "both"),
    ("caps -d 0 -d 1", "one device"),
    ("caps -b", "--bytes"),
    ("caps -t memory", "--topic"),
    ("valdate", "validate"),
    ("validate 0 1", "takes one"),
    ("validate 0 -d 0", "both"),
    ("validate -t memory", "--topic"),
    ("validate --sysroot /", "--sysroot"),
    ("validate --test", "TEST"),
    ("validate --test opn", "nearest is open"),
    ("validate --test xyzzy", "accounting"),
    ("validate --repeat 0", "from 1 to 1000000000, but got 0"),
    ("validate --repeat 1000000001", "1000000001"),
    ("validate --repeat 18446744073709551617", "from 1 to"),
    ("validate --repeat -1", "-1"),
    ("validate --repeat 1e3", "1e3"),
    ("validate --repeat 5 --test ops", "the test repeat"),
    ("validate --destructive --test ops", "the test reset"),
    ("doctor --test ops", "--test"),
    ("stats", "stat"),
    ("stat -i 0.05", "0.1"),
    ("stat -c 0", "from 1"),
    ("stat -t memory", "--topic"),
    ("stat 0 -d 0", "both"),
    ("list -i 1", "--interval"),
    ("bnch", "bench"),
    ("bench x", "no argument"),
    ("bench --set sync", "floor dispatch memory model"),
    ("bench --set floor --set dlpack", "no set dlpack"),
    ("bench --placement near", "one same cross free"),
    ("bench --set floor --placement free", "nothing of these sets"),
    ("bench --seconds 0", "seconds"),
    ("bench --seconds soon", "soon"),
    ("bench --seed 0", "seed"),
    ("bench --seed -1", "-1"),
    ("bench -m x --set floor", "set model"),
    ("bench -d 0 -d 1", "one device"),
    ("bench --list --json", "text"),
    ("bench --list -o metric", "same columns"),
    ("bench --list --seed 1", "does not go with --seed"),
    ("bench --list -d 0", "does not go with --device"),
    ("bench --list --baseline x", "does not go with --baseline"),
    ("bench --topic memory", "--topic"),
    ("list --seconds 1", "--seconds"),
    ("reset 0", "reset"),
    ("completion bash", "completion"),
    ("xyzzy", "--help"),
    ("list --jso", "--json"),
    ("list --jsonn", "--json"),
    ("list --device", "ID"),
    ("list --dev 0", "--device"),
    ("list --csv", "--csv"),
    ("list -P", "-P"),
    ("list -r", "-r"),
    ("list -x", "-x"),
    ("list -d", "ID"),
    ("list --json=yes", "no argument"),
    ("list --json --jsonl", "exclude"),
    ("list 0", "no argument"),
    ("show 0 -d 0", "both"),
    ("show -t nothing", "topology"),
    ("show -t memory -o id", "both"),
    ("show -o nothing", "nothing"),
    ("show -o memory.pinned", "memory.pinned"),
    ("show -o ,", "-o help"),
    ("show --color=blue", "blue"),
    ("show --timeout=0", "timeout"),
    ("show --timeout=soon", "soon"),
    ("show --timeout=0x1p3", "0x1p3"),
    ("show --timeout=1e1", "1e1"),
    ("show --timeout=+1", "+1"),
    ("-h -V", "exclude"),
    ("version -h -o id", "--output"),
    ("caps -V -b", "--bytes"),
    ("show --schema=2", "schema"),
    ("show -l", "--long"),
    ("version --jsonl", "--jsonl"),
    ("version -o id", "--output"),
    ("version -n", "--noheadings"),
    ("doctor -b", "--bytes"),
    ("model", "FILE"),
    ("model -d 0 x", "--device"),
    ("schema list show", "show"),
    ("schema nothing", "nothing"),
    ("schema --strict", "name"),
    ("list -l --json", "-l"),
    ("list --drm -d 0", "-d"),
    ("doctor --capture", "DIR"),
    ("doctor -d 0", "--device"),
]


# I10
@pytest.mark.parametrize("line,name", WRONG)
def test_wrong_lines_are_refused_with_the_nearest(line, name):
    words = line.split()
    done = cases.run(*words)
    assert done.returncode == 2, done
    if "--json" not in words and "--jsonl" not in words:
        assert done.stdout == b""
    assert name in done.stderr.decode(), done
    assert len(done.stderr.decode().splitlines()) == 1
    asked = cases.run("--json", *words)
    assert asked.returncode == 2
    assert json.loads(asked.stdout)["error"]["exit"] == 2


# I10: as it is written on the line
@pytest.mark.parametrize(
    "line,words",
    [
        ("list --color=blue", "--color takes auto, always or never, but got blue"),
        ("list --schema=2", "--schema takes a major version"),
        ("list --timeout=0", "--timeout takes seconds from above 0 to 86400"),
        ("stat --interval=0", "--interval takes seconds from 0.1 to 86400"),
        ("stat --count=x", "--count takes a number from 1 to 4294967295, but got x"),
        ("list --json --jsonl", "--json and --jsonl exclude one another"),
        ("list -h -V", "--help and --version exclude one another"),
        ("list -h -J", "--help prints text: it does not go with --json"),
        ("list -V --jsonl", "--version prints text: it does not go with --jsonl"),
        ("list --json=1", "--json takes no argument"),
        ("caps -b", "caps does not take --bytes"),
    ],
)
def test_sentences_name_options_with_their_dashes(line, words):
    done = cases.run(*line.split())
    assert done.returncode == 2 and words in done.stderr.decode(), done


# I02
@pytest.mark.parametrize(
    "line",
    [
        "list -qJ --bogus",
        "-nJ list -d nosuch",
        "-bJ nosuch",
        "-qvJ nosuch",
        "list --timeout 0 --json",
        "-d x -J nosuch",
        "-V -J",
        "-hJ",
        "list --help --jsonl",
        "list -J -o help",
        "doctor --jsonl -ohelp",
    ],
)
def test_json_that_was_asked_for_is_all_that_is_printed(line):
    done = cases.run(*line.split())
    assert done.returncode in (2, 3), done
    assert json.loads(done.stdout)["error"]["exit"] == done.returncode


# I10
@pytest.mark.parametrize(
    "line", ["list -o -J", "show -d --json", "list -oJ", "list -nd -J", "list -- -J"]
)
def test_what_looks_like_json_and_is_an_argument_is_none(line):
    done = cases.run(*line.split())
    assert done.returncode in (2, 3) and done.stdout == b"", done
    assert done.stderr


# I10: nothing stands where a word of the line would
@pytest.mark.parametrize(
    "words,told",
    [
        ([""], "an argument is empty"),
        (["validate", ""], "an argument is empty"),
        (["bench", "-m", ""], "-m needs an argument: FILE"),
        (["bench", "--baseline="], "--baseline needs an argument: FILE"),
        (["list", "-d", ""], "-d needs an argument: ID"),
    ],
)
def test_an_empty_word_is_told_as_one(words, told):
    done = cases.run(*words)
    assert done.returncode == 2 and told in done.stderr.decode(), done


# I19: a name of any length leaves the sentence its end
@pytest.mark.parametrize(
    "code,words,end",
    [
        (2, ["bench", "--set"], "the sets are floor dispatch memory model"),
        (8, ["bench", "--baseline"], "cannot be read: File name too long"),
        (8, ["bench", "-m"], "File name too long"),
        (2, ["validate", "--test"], "reset, accounting"),
        (3, ["caps"], "visible: aries-rb:0"),
        (8, ["list", "--sysroot"], "as a captured system: File name too long"),
    ],
)
def test_a_long_name_takes_nothing_from_the_sentence(code, words, end):
    done = cases.run(*words, "x" * 10000)
    assert done.returncode == code
    assert done.stderr.decode().endswith(f"{end}\n"), done.stderr[-200:]


HOLD = """import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.argv[2], sys.argv[2:])
"""


# I02, I19
@pytest.mark.parametrize(
    "limit,words",
    [
        (4, ["list"]),
        (4, ["list", "--sysroot", "/"]),
        (4, ["model", cases.DIGITS]),
        (5, ["model", cases.DIGITS]),
        (5, ["bench"]),
    ],
)
def test_a_shortage_of_descriptors_is_no_fault_of_the_input(limit, words):
    if cases.IS_SANITIZED:
        pytest.skip("the sanitizer takes descriptors of its own")
    done = subprocess.run(
        [sys.executable, "-c", HOLD, str(limit), cases.QBINFO, *map(str, words), "-J"],
        capture_output=True,
        env=cases.environment(),
        check=False,
    )
    assert done.returncode == 1, done
    error = json.loads(done.stdout)["error"]
    assert error["name"] == "failed"
    assert "Too many open files" in error["message"]
    assert "captured" not in error["message"]


# I30
def test_no_command_is_summary(roots):
    for words in ([], ["--json"], ["-n"], ["-b"], ["-o", "id"], ["-d", "soft"], ["-q"]):
        more = [*words, "--sysroot", roots / "mixed"]
        first, second = cases.run(*more), cases.run("summary", *more)
        assert (first.stdout, first.returncode) == (second.stdout, second.returncode)


def test_options_stand_before_and_after_the_command(roots):
    root = ["--sysroot", roots / "mixed"]
    assert cases.text(*root, "-J", "list") == cases.text("list", "-J", *root)
    assert cases.text("show", *root, "--", "0") == cases.text("show", *root, "0")
    assert cases.text("list", "-oid", *root) == cases.text("list", "--output=id", *root)


def test_schema_1_is_what_this_build_prints(roots):
    words = ["show", "--json", "--sysroot", roots / "mixed"]
    assert cases.text(*words, "--schema", "1") == cases.text(*words)


# I29
def test_help_is_of_the_table_and_fits_80_columns():
    options = [entry for entry in cases.table("options") if entry[0] == "OPTION"]
    commands = [entry for entry in cases.table("options") if entry[0] == "COMMAND"]
    letters = {entry[3]: entry[2].strip("'") for entry in commands}
    for words in ([], *[[name] for name in letters if name != "summary"]):
        out = cases.text(*words, "--help")
        assert out == cases.text(*words, "-h")
        assert all(len(line) <= 80 for line in out.splitlines())
        shown = set(re.findall(r"^ {2}(?:-\w,|   ) --([a-z-]+)", out, re.M))
        letter = letters[words[0]] if words else None
        wanted = {entry[3] for entry in options if letter is None or letter in entry[5]}
        assert shown == wanted, words
    top = cases.text("--help")
    for name in letters:
        assert re.search(rf"^  {name} ", top, re.M)
    assert re.search(r"^  10 unhealthy ", top, re.M)


def test_version_of_the_tool():
    assert re.fullmatch(r"qbinfo \d+\.\d+\.\d+\n", cases.text("-V"))
    assert cases.text("list", "--version") == cases.text("-V")


# I87
def test_nothing_but_the_table_names_an_option():
    for path in sorted(cases.SOURCES.glob("*.c")):
        if path.name.startswith("bench-"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not re.search(r'"--[a-z]', line), f"{path.name}:{number}"


# I94
def test_examples_of_help_are_real(roots):
    for entry in cases.table("options"):
        if entry[0] != "COMMAND":
            continue
        name, example = entry[3], entry[-1]
        assert f"Example: {example}\n" in cases.text(name, "--help")
        words = shlex.split(example)
        assert words[0] == "qbinfo"
        is_live = name == "model" or name in cases.LIVE_COMMANDS
        more = [] if is_live else ["--sysroot", roots / "mixed"]
        assert cases.text(*words[1:], *more, cwd=cases.TOP / "examples")


# I56
def test_schemas_are_valid_and_described():
    jsonschema = pytest.importorskip("jsonschema")
    names = cases.text("schema").split()
    assert names == [
        "list",
        "show",
        "model",
        "version",
        "summary",
        "doctor",
        "caps",
        "validate",
        "bench",
        "stat",
        "error",
    ]
    for name in names:
        for strict in ([], ["--strict"]):
            schema = json.loads(cases.text("schema", name, *strict))
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["$id"] == f"urn:qbinfo:{name}:1"
            _check_described(schema)


UNITS = {"bytes": "bytes", "ns": "nanoseconds", "hz": "hertz", "celsius": "degrees"}


def _check_described(schema):
    for name, member in schema.get("properties", {}).items():
        assert member["description"], name
        unit = name.rsplit("_", 1)[-1]
        for other, word in UNITS.items():
            if unit in UNITS and other != unit:
                assert word not in member["description"], name
        _check_described(member)
        if isinstance(member.get("items"), dict):
            _check_described(member["items"])
