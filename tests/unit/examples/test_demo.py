from __future__ import annotations

import pytest

from examples.demo import Answer, ask, draw, sample
from tests.assets.example_runs import EXAMPLES, image_items, run_package


@pytest.fixture(scope="module")
def model(digits, tmp_path_factory):
    """A model of one epoch: it knows something, and errs."""
    output = tmp_path_factory.mktemp("model")
    names = [str(digit) for digit in range(10)]
    run_package(
        EXAMPLES / "digits",
        output,
        class_names=names,
        items=image_items(digits),
        input_dir=digits,
        parameters={"epochs": 1, "image_size": 10},
    )
    return output / "model.onnx"


def test_every_held_out_image_is_asked_about_once(model, digits):
    answers = ask(model, digits / "test")

    assert sorted(answer.path for answer in answers) == sorted((digits / "test").rglob("*.png"))


def test_images_are_prepared_as_the_model_says(model, digits):
    answers = ask(model, digits / "val")

    assert 0.4 < sum(answer.true_class == answer.predicted_class for answer in answers) / len(answers) < 1


def test_a_probability_is_one(model, digits):
    assert all(0.1 <= answer.probability <= 1 for answer in ask(model, digits / "test"))


def test_the_sample_is_spread_over_all_answers():
    answers = [Answer(None, str(number), "", 0.0) for number in range(101)]

    assert [answer.true_class for answer in sample(answers)] == ["0", "25", "50", "75", "100"]


def test_an_image_is_drawn_with_what_it_is_taken_for(digits):
    path = min((digits / "test" / "0").iterdir())

    drawn = draw([Answer(path, "0", "0", 0.98), Answer(path, "0", "6", 0.5)]).splitlines()

    assert len(drawn) == 9
    assert "@@" in "".join(drawn[:8])
    assert drawn[8].split() == ["0", "(98%)", "6", "(50%),", "is", "0"]
