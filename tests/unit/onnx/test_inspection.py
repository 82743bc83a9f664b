from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from contracts.errors import InternalError, KilledError, OnnxInvalidError
from contracts.limits import MIB
from runtime.onnx import inspection
from runtime.onnx.inspection import OnnxReport, Tensor, inspect_model
from tests.assets.onnx_models import linear_model, model_of, with_external_data, written


def refused(path: Path, **limits) -> OnnxInvalidError:
    with pytest.raises(OnnxInvalidError) as caught:
        inspect_model(path, **limits)
    assert caught.value.hint
    return caught.value


def test_a_valid_model_is_described(tmp_path):
    path = written(linear_model(features=64, classes=10), tmp_path / "model.onnx")

    assert inspect_model(path) == OnnxReport(
        opset=17,
        opsets={"ai.onnx": 17},
        inputs=(Tensor("x", "float32", ("batch", 64)),),
        outputs=(Tensor("scores", "float32", ("batch", 10)),),
        producer="tests 1",
        ir_version=8,
        size_bytes=path.stat().st_size,
    )


def test_the_report_is_made_of_json_values(tmp_path):
    document = inspect_model(written(linear_model(), tmp_path / "model.onnx")).to_document()

    assert document["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
    assert document["opsets"] == {"ai.onnx": 17}


def test_other_operator_sets_are_listed_by_domain(tmp_path):
    model = model_of(
        [helper.make_node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L2")],
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])],
        outputs=[helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 2])],
        domains={"ai.onnx.ml": 3},
    )

    report = inspect_model(written(model, tmp_path / "model.onnx"))

    assert report.opsets == {"ai.onnx": 17, "ai.onnx.ml": 3}
    assert report.inputs[0].shape == (None, 2)


def test_an_output_that_is_no_tensor_keeps_the_type_that_onnxruntime_gives_it(tmp_path):
    model = model_of(
        [helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])],
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])],
        outputs=[
            helper.make_value_info(
                "y",
                helper.make_sequence_type_proto(
                    helper.make_map_type_proto(
                        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
                    )
                ),
            )
        ],
        domains={"ai.onnx.ml": 3},
    )

    assert inspect_model(written(model, tmp_path / "m.onnx")).outputs[0].dtype == "seq(map(int64,tensor(float)))"


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    path.touch()

    assert refused(path).message == "model.onnx is not a usable ONNX model: it is empty"


def test_a_missing_file_is_refused(tmp_path):
    assert "cannot be opened (No such file or directory)" in refused(tmp_path / "model.onnx").message


def test_a_link_is_refused_whatever_it_points_at(tmp_path):
    link = tmp_path / "link.onnx"
    link.symlink_to(written(linear_model(), tmp_path / "model.onnx"))

    assert "not a regular file" in refused(link).message


def test_a_file_over_the_limit_is_refused_before_it_is_opened(tmp_path):
    path = written(linear_model(), tmp_path / "model.onnx")

    error = refused(path, max_bytes=10)

    assert f"it has {path.stat().st_size} bytes, at most 10 are allowed" in error.message
    assert "log" not in error.context


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [b"PK\x03\x04 a zip, not a model", bytes(range(256)) * 64, b"\x00" * 4096, b"{}", b"\x08\x08"],
    ids=["zip", "garbage", "zeros", "json", "only-a-version"],
)
def test_bytes_that_are_no_model_are_refused(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)

    assert refused(path).context["step"] == "parse"


@pytest.mark.slow
def test_a_truncated_model_is_refused_wherever_it_was_cut(tmp_path):
    whole = linear_model().SerializeToString()
    path = tmp_path / "model.onnx"
    for length in range(len(whole) // 6, len(whole), len(whole) // 6):
        path.write_bytes(whole[:length])
        assert refused(path).context["step"] == "parse"


@pytest.mark.slow
@pytest.mark.parametrize("location", ["weights.bin", "../../etc/passwd", "/etc/passwd", ""])
def test_weights_outside_the_file_are_refused_also_when_they_are_there(tmp_path, location):
    (tmp_path / "weights.bin").write_bytes(bytes(4 * 3 * 4))
    path = written(with_external_data(linear_model(), location), tmp_path / "model.onnx")

    error = refused(path)

    assert error.context["step"] == "external_data"
    assert location in error.message
    assert "one file" in error.hint


def test_weights_outside_the_file_are_found_in_a_sub_graph(tmp_path):
    inner = with_external_data(linear_model(), "../secret").graph
    tensor = inner.initializer[0]
    branch = helper.make_graph(
        [helper.make_node("Identity", ["weights"], ["z"])],
        "branch",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4, 3])],
        [tensor],
    )
    model = model_of(
        [helper.make_node("If", ["choice"], ["y"], then_branch=branch, else_branch=branch)],
        inputs=[helper.make_tensor_value_info("choice", TensorProto.BOOL, [])],
        outputs=[helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
    )

    error = refused(written(model, tmp_path / "model.onnx"))

    assert (error.context["step"], "../secret" in error.message) == ("external_data", True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [b"scores", b"tests"], ids=["an-output", "the-producer"])
def test_a_name_that_is_not_utf8_is_refused(tmp_path, name):
    path = tmp_path / "model.onnx"
    path.write_bytes(linear_model().SerializeToString().replace(name, b"\xff" * len(name)))

    error = refused(path)

    assert (error.context["step"], "not UTF-8" in error.message) == ("parse", True)


def test_a_graph_that_contradicts_itself_is_refused_by_the_checker(tmp_path):
    model = linear_model()
    model.graph.node[0].input[0] = "nobody writes this"

    error = refused(written(model, tmp_path / "model.onnx"))

    assert error.context["step"] == "checker"
    assert "nobody writes this" in error.message


def test_a_wrong_declared_shape_is_refused_by_the_checker(tmp_path):
    model = linear_model(classes=3)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 7

    assert refused(written(model, tmp_path / "model.onnx")).context["step"] == "checker"


def test_an_operator_that_onnxruntime_does_not_have_is_refused(tmp_path):
    model = model_of(
        [helper.make_node("Teleport", ["x"], ["y"], domain="com.example")],
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        outputs=[helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        domains={"com.example": 1},
    )

    error = refused(written(model, tmp_path / "model.onnx"))

    assert error.context["step"] == "onnxruntime"
    assert "Teleport" in error.message


@pytest.mark.slow
def test_a_model_that_needs_more_memory_than_its_file_allows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "ONNX_CHECK_MEMORY_BYTES", 224 * MIB)
    monkeypatch.setattr(inspection, "ONNX_CHECK_COPIES", 1)
    path = written(linear_model(features=100_000, classes=256), tmp_path / "model.onnx")

    error = refused(path)

    assert error.context["step"] == "memory"
    assert "bytes of memory" in error.message


def test_more_outputs_than_can_be_listed_are_refused(tmp_path):
    names = [f"{'y' * 1000}{number}" for number in range(1200)]
    model = model_of(
        [helper.make_node("Identity", ["x"], [name]) for name in names],
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        outputs=[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in names],
    )

    assert refused(written(model, tmp_path / "model.onnx")).context["step"] == "report"


def test_a_model_that_takes_too_long_is_refused_and_its_reader_ended(tmp_path):
    path = written(linear_model(), tmp_path / "model.onnx")

    error = refused(path, timeout_seconds=0.01)

    assert "longer than 0.01 s" in error.message
    assert _readers_of(path) == []


def test_a_reader_that_crashes_takes_only_itself_down(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "_PROBE", _script(tmp_path, "import os; os.abort()"))

    error = refused(written(linear_model(), tmp_path / "model.onnx"))

    assert (error.context["step"], error.context["signal"]) == ("crash", "SIGABRT")


def test_a_reader_killed_from_outside_is_not_the_models_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "_PROBE", _script(tmp_path, "import os; os.kill(os.getpid(), 9)"))

    with pytest.raises(KilledError):
        inspect_model(written(linear_model(), tmp_path / "model.onnx"))


def test_a_python_without_onnx_is_a_defect_of_the_installation(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "_PROBE", _script(tmp_path, "import a_module_that_is_not_installed"))

    with pytest.raises(InternalError) as caught:
        inspect_model(written(linear_model(), tmp_path / "model.onnx"))

    assert "a_module_that_is_not_installed" in caught.value.context["log"]


def test_the_reader_sees_no_environment_of_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("S3_SECRET_KEY", "do not tell")
    monkeypatch.setattr(inspection, "_PROBE", _script(tmp_path, "import os; raise SystemExit(str(dict(os.environ)))"))

    with pytest.raises(InternalError) as caught:
        inspect_model(written(linear_model(), tmp_path / "model.onnx"))

    assert "PATH" in caught.value.context["log"]
    assert "do not tell" not in caught.value.context["log"]


def test_the_reader_dies_with_a_parent_that_is_killed(tmp_path):
    probe = _script(
        tmp_path,
        f"""
        import importlib.util, os, sys, time
        spec = importlib.util.spec_from_file_location("probe", {str(inspection._PROBE)!r})
        probe = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(probe)
        probe.confine(int(sys.argv[2]), 1 << 30, 1 << 20)
        os.write(int(os.environ["TMPDIR"]), b"confined")
        time.sleep(600)
        """,
    )
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import os, subprocess, sys, time; subprocess.Popen([sys.executable, '-I', {str(probe)!r}, 'model', str(os.getpid())], close_fds=False, env={{'TMPDIR': '{writing}'}}); time.sleep(600)",
        ],
        pass_fds=[writing],
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read(8) == b"confined"
        parent.kill()
        parent.wait()
        assert pipe.read() == b""  # ends when the last process that could write is gone


def _script(folder: Path, source: str) -> Path:
    path = folder / "reader.py"
    path.write_text(textwrap.dedent(source))
    return path


def _readers_of(path: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(path).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_looking_at_a_model_leaves_nothing_in_the_temporary_folder(tmp_path, monkeypatch):
    path = written(linear_model(), tmp_path / "model.onnx")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))

    inspect_model(path)

    assert list(scratch.iterdir()) == []
