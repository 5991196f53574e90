# SPDX-License-Identifier: MIT
"""qbm run --stop-after, --tensor: programs that end early show inner tensors."""

import pytest
from runtime_cases import CORPUS, DIGITS

np = pytest.importorskip("numpy")
from qbcompile import asm, container, cut, evaluate, qbm  # noqa: E402
from qbcompile import isa_tables as isa  # noqa: E402

# Two values one after the other in the same scratch memory, and one output
# that two commands write.
TWO_LIVES = """qbm 1.0 isa 1.0 producer="hand"
variant "default" inputs=0+1 outputs=1+2 bundles=0+1 batch=1 mode_mask=1
bundle "main" mode_mask=1 program=0,-,-,-,-
io 0 "x" role=input device_dtype=u8 host_dtype=u8 shape=[4]
io 1 "whole" role=output device_dtype=f32 host_dtype=f32 shape=[2,4]
io 2 "last" role=output device_dtype=f32 host_dtype=f32 shape=[4]
program 0
  binding 0 input tensor=%x io=0
  binding 1 output tensor=%whole io=1 access=3
  binding 2 output tensor=%last io=2
  binding 3 scratch
  tensor %x u8 [4] binding=0 scale=1.0
  tensor %whole f32 [2,4] binding=1
  tensor %upper f32 [4] binding=1
  tensor %lower f32 [4] binding=1 offset=16
  tensor %last f32 [4] binding=2
  tensor %first_life f32 [4] binding=3
  tensor %view f32 [2,2] binding=3
  tensor %second_life f32 [4] binding=3
  tensor %square f32 [2,2] binding=2
  list 0
    cast src=%x dst=%first_life
    copy src=%first_life dst=%upper
    binary a=%upper b=%upper dst=%second_life fn=1
    copy src=%second_life dst=%lower
    copy src=%view dst=%square
"""
X = np.array([1, 2, 3, 4], "u1")


def read_corpus(name):
    text = (CORPUS / f"{name}.txt").read_text(encoding="utf-8")
    return container.read(container.write(asm.parse(text, None)))


def parse(text):
    return container.read(container.write(asm.parse(text, None)))


@pytest.fixture
def show(tmp_path):
    """Gives what the device has in these inner tensors, and the outputs' names."""
    pytest.importorskip("qbruntime")
    from qbcompile import run

    def call(file, last, names, **feeds):
        paths = {}
        for name, array in feeds.items():
            paths[name] = tmp_path / f"{name}.npy"
            np.save(paths[name], array)
        lines, found = run.run_cut(file, last, names, paths)
        arrays = []
        for data in found[len(found) - len(names) :]:
            (tmp_path / "out.npy").write_bytes(data)
            arrays.append(np.load(tmp_path / "out.npy"))
        return arrays, [line.split('"')[1] for line in lines]

    return call


def expect(file, last, number, feeds):
    """The tensor after the command, in f64."""
    program = file.programs[0]
    memory = evaluate.Memory(program, file.weights)
    for binding, tensor in evaluate.io_tensors(program):
        if binding.kind == isa.INPUT:
            value = feeds[file.ios[binding.io].name]
            memory.view(tensor)[...] = value.reshape(tensor.dims)
    for command in program.commands[: last + 1]:
        evaluate.COMMANDS[command.opcode](memory, command)
    return np.array(memory.view(program.tensors[number]))


# QM07
@pytest.mark.parametrize("name", ["conv_net", "digits"])
def test_each_tensor_is_what_the_commands_up_to_it_give(name, show):
    file = (
        container.read(DIGITS.read_bytes()) if name == "digits" else read_corpus(name)
    )
    feeds = {"image": np.random.default_rng(7).integers(0, 17, (8, 8, 1), "u1")}
    program = file.programs[0]
    for last, command in enumerate(program.commands):
        number = command.fields["dst"]
        tensor = program.tensors[number].name
        assert tensor
        wanted = expect(file, last, number, feeds)
        for stop in (last, None):
            (array,), _ = show(file, stop, [tensor], **feeds)
            assert array.shape == wanted.shape
            assert np.allclose(array, wanted, rtol=1e-4, atol=1e-4), (tensor, stop)


# QM07
def test_outputs_that_are_not_whole_any_more_are_left_out(show):
    file = parse(TWO_LIVES)
    for last, names in ((0, []), (2, []), (3, ["whole"]), (4, ["whole", "last"])):
        (array,), outputs = show(file, last, ["first_life"], x=X)
        assert outputs == [*names, "first_life"] and np.array_equal(array, X)


# QM07
def test_memory_that_lives_twice_shows_both(show):
    arrays, outputs = show(parse(TWO_LIVES), None, ["second_life", "first_life"], x=X)
    assert np.array_equal(arrays[0], 2.0 * X) and np.array_equal(arrays[1], X)
    assert outputs == ["whole", "last", "second_life", "first_life"]


# QM07
def test_views_and_outputs_are_shown_too(show):
    names = ["view", "whole", "upper", "lower"]
    arrays, outputs = show(parse(TWO_LIVES), 4, names, x=X)
    assert np.array_equal(arrays[0], 2.0 * X.reshape(2, 2))
    assert np.array_equal(arrays[1], [X, 2.0 * X])
    assert np.array_equal(arrays[2], X) and np.array_equal(arrays[3], 2.0 * X)
    assert outputs == ["whole", "last", "view", "whole'", "upper", "lower"]


# QM07
def test_what_cannot_be_shown_is_refused_by_name():
    file = parse(TWO_LIVES)
    for last, names, words in (
        (1, ["second_life"], "no command up to 1 writes tensor 'second_life'"),
        (0, ["whole"], "no command up to 0 writes tensor 'whole'"),
        (None, ["x"], "no command up to 4 writes tensor 'x'"),
        (None, ["y"], "there is no tensor 'y'"),
        (None, [""], "there is no tensor ''"),
        (0, ["view"], "no command up to 0 writes tensor 'view'"),
        (5, ["upper"], "there is no command 5: they are 0 to 4"),
        (-1, ["upper"], "there is no command -1: they are 0 to 4"),
        (2, [], "no output is left: name a tensor to look at"),
    ):
        with pytest.raises(cut.Refused) as caught:
            cut.cut(file, last, names)
        assert str(caught.value) == words


# QM07
@pytest.mark.parametrize("name", ["conv_net", "variants", "kv_cache", "two_inputs"])
def test_files_that_were_cut_are_good_ones(name, tmp_path, capsys):
    file = read_corpus(name)
    program = file.programs[0]
    before = container.write(file)
    path = tmp_path / "cut.qbm"
    count = 0
    for last, command in enumerate(program.commands):
        for field in isa.OPCODES[command.opcode].destinations:
            tensor = program.tensors[command.fields[field]]
            if not tensor.name or tensor.extent_params or tensor.offset_params:
                continue
            path.write_bytes(container.write(cut.cut(file, last, [tensor.name])))
            assert qbm.main(["verify", str(path)]) == 0, capsys.readouterr().err
            count += 1
    path.write_bytes(container.write(cut.cut(file, None, [])))
    assert qbm.main(["verify", str(path)]) == 0, capsys.readouterr().err
    # all extents of kv_cache vary
    assert (count > 0) == (name != "kv_cache") and container.write(file) == before


# QM07
def test_the_tool_writes_tensors_and_prints_outputs(tmp_path, capsys):
    pytest.importorskip("qbruntime")
    path, out = tmp_path / "lives.qbm", tmp_path / "out.npy"
    path.write_bytes(container.write(parse(TWO_LIVES)))
    np.save(tmp_path / "x.npy", X)
    arguments = ["run", str(path), "--input", f"x={tmp_path / 'x.npy'}"]
    cutting = ["--stop-after", "2", "--tensor", f"second_life={out}"]
    assert qbm.main(arguments + cutting) == 0
    said = capsys.readouterr().out
    assert said.startswith('output 0 "second_life" dtype=float32 shape=[4] sha256=')
    assert said.count("\n") == 1 and np.array_equal(np.load(out), 2.0 * X)
    out.unlink()
    assert qbm.main(arguments + ["--tensor", f"missing={out}"]) == 3
    assert "there is no tensor 'missing'" in capsys.readouterr().err
    assert not out.exists()
    assert qbm.main(arguments + ["--tensor", f"view={path}"]) == 2
    assert qbm.main(arguments + ["--tensor", "view"]) == 2
    assert "--tensor is NAME=ARRAY.npy" in capsys.readouterr().err


def intermediates(image):
    """Each value of digits.onnx by name, as ONNX words it; images channels last."""
    load = pytest.importorskip("qbcompile.load")
    from qbcompile import fold

    source = DIGITS.with_suffix(".onnx").read_bytes()
    graph = load.load(source, None, load.Sizes(shapes={"image": (1, 1, 8, 8)}))
    fold.infer(graph)
    graph.outputs = [node.output for node in graph.nodes]
    pixels = image.reshape(1, 1, 8, 8).astype("f4") / 16
    values = evaluate.run_graph(graph, {"image": pixels})
    return {
        name: value.transpose(0, 2, 3, 1) if value.ndim == 4 else value
        for name, value in values.items()
    }


# CT08 QM07
@pytest.mark.parametrize("planted", [None, "conv2.b", "fc.b"])
def test_the_first_command_that_differs_is_found(planted, tmp_path):
    pytest.importorskip("qbruntime")
    file = container.read(DIGITS.read_bytes())
    program = file.programs[0]
    if planted:
        [tensor] = [tensor for tensor in program.tensors if tensor.name == planted]
        weights = bytearray(file.weights)
        weights[tensor.offset : tensor.offset + 4] = np.float32(3).tobytes()
        file.weights = bytes(weights)
    path, out = tmp_path / "digits.qbm", tmp_path / "out.npy"
    path.write_bytes(container.write(file))
    image = np.random.default_rng(8).integers(0, 17, (8, 8, 1), "u1")
    np.save(tmp_path / "image.npy", image)
    wanted = intermediates(image)
    compared, differing = [], []
    for last, command in enumerate(program.commands):
        name = program.tensors[command.fields["dst"]].name
        if name not in wanted:
            continue
        arguments = ["run", str(path), "--input", f"image={tmp_path / 'image.npy'}"]
        arguments += ["--stop-after", str(last), "--tensor", f"{name}={out}"]
        assert qbm.main(arguments) == 0
        compared.append(name)
        if not np.allclose(np.load(out), wanted[name], rtol=1e-4, atol=1e-4):
            differing.append(name)
    assert compared == ["relu1", "relu2", "pool2", "relu3", "pool3", "logits"]
    first = {None: [], "conv2.b": ["relu2"], "fc.b": ["logits"]}
    assert differing[:1] == first[planted]
