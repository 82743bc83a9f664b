from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import OnnxInvalidError
from runtime.onnx.inspection import OnnxReport, inspect_model
from tests.assets.onnx_models import linear_model

MODEL = linear_model().SerializeToString()
EXAMPLES = 20
"""Each starts a process; what is drawn differs from run to run."""

change = st.tuples(st.integers(0, len(MODEL) - 1), st.binary(min_size=0, max_size=8), st.integers(0, 8))


@settings(max_examples=EXAMPLES)
@given(changes=st.lists(change, min_size=1, max_size=4))
def test_a_changed_model_is_described_or_refused_and_nothing_else(changes, tmp_path_factory):
    content = bytearray(MODEL)
    for position, replacement, removed in changes:
        content[position : position + removed] = replacement
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    path.write_bytes(content)

    with contextlib.suppress(OnnxInvalidError):
        assert isinstance(inspect_model(path), OnnxReport)
