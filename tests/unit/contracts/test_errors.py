from __future__ import annotations

import pickle

import pytest

from contracts.errors import InternalError, InvalidDocumentError, RuntimeFault, codes, fault_from_document


@pytest.mark.parametrize("kind", codes().values(), ids=codes().keys())
def test_an_error_survives_a_process_boundary(kind: type[RuntimeFault]) -> None:
    raised = kind("what happened", hint="what to do", context={"at": 1})

    back = pickle.loads(pickle.dumps(raised))

    assert (type(back), back.message, back.hint, back.context) == (kind, "what happened", "what to do", {"at": 1})


@pytest.mark.parametrize("kind", codes().values(), ids=codes().keys())
def test_an_error_document_is_read_back_as_its_type(kind: type[RuntimeFault]) -> None:
    assert type(fault_from_document(kind("m", hint="h").to_document())) is kind


def test_an_unknown_code_is_ours_to_explain() -> None:
    assert type(fault_from_document({"code": "from_the_future", "message": "m", "hint": "h"})) is InternalError


@pytest.mark.parametrize("kind", codes().values(), ids=codes().keys())
def test_every_code_says_what_it_means_in_one_paragraph(kind: type[RuntimeFault]) -> None:
    assert kind.__doc__
    assert "\n\n" not in kind.__doc__.strip()


@pytest.mark.parametrize("kind", codes().values(), ids=codes().keys())
def test_what_may_be_tried_later_is_answered_as_unavailable(kind: type[RuntimeFault]) -> None:
    assert (kind.retry == "later") == (kind.exit_code == 5)


def test_the_message_of_an_invalid_document_names_every_path_up_to_twenty() -> None:
    error = InvalidDocumentError.of("training-event/v1", [{"path": f"p{n}", "message": "bad"} for n in range(21)])

    assert "p19: bad; and 1 more" in error.message
    assert len(error.context["violations"]) == 21


def test_the_headline_is_the_message_without_its_violations_also_when_read_back() -> None:
    error = InvalidDocumentError.of("training-event/v1", [{"path": ": level: bad", "message": "level: bad"}])

    back = fault_from_document(error.to_document())

    assert (back.headline, back.message) == ("not a valid training-event/v1 document", error.message)


def test_the_headline_of_an_error_without_a_list_is_its_message() -> None:
    assert InternalError("what happened", hint="-").headline == "what happened"
