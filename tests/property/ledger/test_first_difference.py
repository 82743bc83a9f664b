"""Two documents either are the same, or the path of a value that differs is named."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from runtime.ledger.ledger import first_difference

KEYS = st.text("abc", min_size=1, max_size=2)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


def at(document, path: str):
    for part in path.replace("[", ".[").split("."):
        document = document[int(part[1:-1])] if part.startswith("[") else document[part]
    return document


def look(document, path: str) -> tuple[bool, str]:
    try:
        return True, repr(at(document, path))
    except (KeyError, IndexError, TypeError):
        return False, ""


@given(DOCUMENTS)
def test_a_copy_does_not_differ(document) -> None:
    assert first_difference(document, copy.deepcopy(document)) == ""


@given(DOCUMENTS, DOCUMENTS)
def test_documents_differ_exactly_when_a_path_is_named_and_they_differ_there(earlier, later) -> None:
    path = first_difference(earlier, later)

    if path:
        assert look(earlier, path) != look(later, path)
    else:
        assert earlier == later
