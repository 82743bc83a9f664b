from __future__ import annotations

from collections import Counter
from hashlib import sha256

import pytest
from PIL import Image

from examples.digits_data import write_digits


def test_every_image_of_the_data_set_is_written_once(digits):
    numbers = sorted(int(path.stem) for path in digits.rglob("*.png"))

    assert numbers == list(range(1797))


def test_the_splits_have_their_shares_of_every_class(digits):
    for digit in map(str, range(10)):
        counts = {split: len(list((digits / split / digit).iterdir())) for split in ("train", "val", "test")}
        total = sum(counts.values())
        assert abs(counts["train"] - 0.70 * total) <= 1
        assert abs(counts["val"] - 0.15 * total) <= 1


def test_no_image_occurs_in_two_splits(digits):
    splits_of_content = {}
    for path in digits.rglob("*.png"):
        splits_of_content.setdefault(sha256(path.read_bytes()).hexdigest(), set()).add(path.parts[-3])

    assert [splits for splits in splits_of_content.values() if len(splits) > 1] == []


def test_the_images_are_small_grey_pngs(digits):
    seen = Counter()
    for path in digits.rglob("*.png"):
        with Image.open(path) as image:
            seen[image.format, image.mode, image.size] += 1

    assert seen == {("PNG", "L", (8, 8)): 1797}


@pytest.mark.slow
def test_writing_again_gives_the_same_bytes(digits, tmp_path):
    counts = write_digits(tmp_path)
    write_digits(tmp_path)

    assert counts == {"train": 1258, "val": 270, "test": 269}
    assert _contents(tmp_path) == _contents(digits)


def _contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.png")}
