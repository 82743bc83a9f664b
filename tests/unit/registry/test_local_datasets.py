"""Reading data sets as people have them: what is meant is understood, what is wrong is named, nothing leads outside."""

from __future__ import annotations

import json
import os

import pytest

from contracts.errors import DatasetUnreadableError, NotFoundError
from runtime.registry.local_datasets import LocalFile, read_local_dataset
from runtime.registry.local_datasets.coco import split_of
from tests.assets.local_datasets import class_folders, coco, png, write, yolo


def violations(path) -> dict[str, str]:
    with pytest.raises(DatasetUnreadableError) as refused:
        read_local_dataset(path)
    assert refused.value.hint
    return {found["path"]: found["message"] for found in refused.value.context["violations"]}


# --- class folders ---------------------------------------------------------------------------------------------------


def test_class_folders_give_sorted_classes_and_unspecified_splits(tmp_path) -> None:
    found = read_local_dataset(class_folders(tmp_path, classes=("dog", "cat"), count=1))

    assert (found.task_kind, found.data_modalities, found.annotation_kinds) == (
        "classification", ("image",), ("classification",),
    )  # fmt: skip
    assert found.class_names == ("cat", "dog")
    assert [(item.item_id, item.split, item.metadata) for item in found.items] == [
        ("cat/0.png", "unspecified", {"class_name": "cat", "file_name": "0.png", "class_index": 0}),
        ("dog/0.png", "unspecified", {"class_name": "dog", "file_name": "0.png", "class_index": 1}),
    ]


def test_folders_of_splits_are_recognised_by_any_of_their_names(tmp_path) -> None:
    found = read_local_dataset(class_folders(tmp_path, splits=("train", "valid", "Test"), count=1))

    assert {item.item_id: item.split for item in found.items} == {
        "train/cat/0.png": "train", "train/dog/0.png": "train",
        "valid/cat/0.png": "val", "valid/dog/0.png": "val",
        "Test/cat/0.png": "test", "Test/dog/0.png": "test",
    }  # fmt: skip


def test_a_class_that_is_called_like_a_split_is_a_class_when_others_are_not(tmp_path) -> None:
    assert read_local_dataset(class_folders(tmp_path, classes=("test", "car"))).class_names == ("car", "test")


def test_a_class_may_be_missing_from_a_split(tmp_path) -> None:
    class_folders(tmp_path, splits=("train",))
    class_folders(tmp_path, splits=("test",), classes=("cat",))

    assert read_local_dataset(tmp_path).class_names == ("cat", "dog")


def test_images_below_a_class_folder_count_and_other_files_are_ignored(tmp_path) -> None:
    class_folders(tmp_path, count=1)
    write(tmp_path / "cat/more/1.JPG", b"\xff\xd8\xff\xe0 a jpeg")
    write(tmp_path / "cat/notes.txt", "nice cats")
    write(tmp_path / "cat/.DS_Store", "x")
    write(tmp_path / ".git/config", "x")

    found = read_local_dataset(tmp_path)

    assert [item.item_id for item in found.items] == ["cat/0.png", "cat/more/1.JPG", "dog/0.png"]
    assert found.items[1].media.suffix == ".jpg"
    assert found.ignored_files == 1


def test_everything_that_is_wrong_is_named_at_once(tmp_path) -> None:
    class_folders(tmp_path)
    write(tmp_path / "cat/empty.png", b"")
    write(tmp_path / "cat/text.png", "this is no image")
    write(tmp_path / "bird/notes.txt", "no picture yet")
    write(tmp_path / "stray.png", png("stray"))
    os.mkfifo(tmp_path / "dog" / "pipe.png")

    assert violations(tmp_path) == {
        ".": "has images that lie in no class folder",
        "cat/empty.png": "is empty",
        "cat/text.png": "is no image: its first bytes are of no image format",
        "bird": "is a class folder without an image",
        "dog/pipe.png": "is no regular file",
    }


@pytest.mark.parametrize("target", ["../../outside.png", "/etc/hostname"])
def test_an_image_that_is_a_link_out_of_the_folder_is_refused(tmp_path, target) -> None:
    write(tmp_path / "outside.png", png("outside"))
    root = class_folders(tmp_path / "data")
    (root / "cat" / "link.png").symlink_to(target)

    assert violations(root) == {"cat/link.png": "leads out of the data set's folder by a symbolic link or `..`"}


def test_a_link_that_leads_nowhere_is_named(tmp_path) -> None:
    root = class_folders(tmp_path)
    (root / "cat" / "link.png").symlink_to("nowhere.png")

    assert violations(root) == {"cat/link.png": "is not there"}


def test_a_class_folder_that_is_a_link_out_of_the_folder_is_refused(tmp_path) -> None:
    elsewhere = class_folders(tmp_path / "elsewhere")
    root = class_folders(tmp_path / "data")
    (root / "bird").symlink_to(elsewhere / "cat")

    assert violations(root) == {"bird": "leads out of the data set's folder by a symbolic link or `..`"}


def test_a_link_within_the_folder_is_followed(tmp_path) -> None:
    class_folders(tmp_path, count=1)
    (tmp_path / "dog" / "1.png").symlink_to("../cat/0.png")

    found = read_local_dataset(tmp_path)

    assert found.items[-1].item_id == "dog/1.png"
    assert found.items[-1].media.path == tmp_path / "cat/0.png"


def test_folders_that_lead_round_in_a_circle_are_named(tmp_path) -> None:
    class_folders(tmp_path)
    (tmp_path / "cat" / "again").symlink_to("../cat")

    assert violations(tmp_path) == {"cat/again": "leads round in a circle"}


def test_a_name_that_is_no_text_is_named(tmp_path) -> None:
    class_folders(tmp_path)
    write(tmp_path / "cat" / os.fsdecode(b"\xff.png"), png("x"))

    assert violations(tmp_path) == {"cat/�.png": "has a name that is not UTF-8"}


def test_a_long_path_gets_a_short_and_unique_id(tmp_path) -> None:
    long = "/".join(["n" * 100] * 3)
    class_folders(tmp_path, count=1)
    write(tmp_path / "cat" / long / "1.png", png("1"))
    write(tmp_path / "cat" / long / "2.png", png("2"))

    ids = [item.item_id for item in read_local_dataset(tmp_path).items]

    assert len(set(ids)) == 4
    assert max(map(len, ids)) == 256


def test_an_empty_folder_says_what_belongs_there(tmp_path) -> None:
    with pytest.raises(DatasetUnreadableError, match=r"has no class folder") as refused:
        read_local_dataset(tmp_path)

    assert "ROOT/CLASS/*.png" in refused.value.hint


def test_a_path_that_is_not_there_is_not_found(tmp_path) -> None:
    with pytest.raises(NotFoundError, match="is not there"):
        read_local_dataset(tmp_path / "none")


def test_a_file_of_another_kind_is_no_data_set(tmp_path) -> None:
    with pytest.raises(DatasetUnreadableError, match=r"notes\.txt is no data set") as refused:
        read_local_dataset(write(tmp_path / "notes.txt", "x"))

    assert "data.yaml" in refused.value.hint


# --- YOLO ------------------------------------------------------------------------------------------------------------


def test_a_yolo_data_set_keeps_its_label_files(tmp_path) -> None:
    found = read_local_dataset(yolo(tmp_path))

    assert (found.task_kind, found.annotation_kinds, found.class_names) == (
        "detection", ("detection_yolo",), ("car", "bus"),
    )  # fmt: skip
    assert [(item.item_id, item.split, item.annotation) for item in found.items] == [
        ("images/train/a.png", "train", LocalFile(tmp_path / "labels/train/a.txt", ".txt")),
        ("images/train/b.png", "train", None),
        ("images/val/c.png", "val", LocalFile(tmp_path / "labels/val/c.txt", ".txt")),
    ]


def test_the_folder_of_a_yolo_data_set_stands_for_it(tmp_path) -> None:
    assert len(read_local_dataset(yolo(tmp_path).parent).items) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"names": "{0: car, 1: bus}", "nc": ""},
        {"path": "/datasets/vehicles"},  # where it was made
        {"path": "../datasets/vehicles"},
        {"path": "", "train": "../images/train", "val": "../images/val"},  # an export's habit
        {"train": "[images/train]"},
        {"train": "./images/train/"},
        {"download": "https://example.org/x.zip", "kpt_shape": "[1, 2]"},
        {"val": "", "valid": "images/val"},
    ],
)
def test_the_ways_in_which_data_yaml_is_written_mean_the_same(tmp_path, changes) -> None:
    found = read_local_dataset(yolo(tmp_path, **changes))

    assert found.class_names == ("car", "bus")
    assert [item.item_id for item in found.items] == ["images/train/a.png", "images/train/b.png", "images/val/c.png"]


def test_a_list_of_images_names_a_split(tmp_path) -> None:
    write(tmp_path / "train.txt", "images/train/b.png\n./images/train/a.png\n\n")

    found = read_local_dataset(yolo(tmp_path, train="train.txt"))

    assert [item.item_id for item in found.items if item.split == "train"] == [
        "images/train/a.png",
        "images/train/b.png",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("0 0.5 0.5 0.1", "has 4 values, must have 5 (oriented boxes and outlines are not read)"),
        ("0 0.1 0.1 0.2 0.1 0.2 0.2 0.1 0.2", "has 9 values, must have 5 (oriented boxes and outlines are not read)"),
        ("2 0.5 0.5 0.1 0.1", "has class 2, must be from 0 to 1"),
        ("-1 0.5 0.5 0.1 0.1", "has class -1, must be from 0 to 1"),
        ("0.5 0.5 0.5 0.1 0.1", "has class 0.5, must be from 0 to 1"),
        ("car 0.5 0.5 0.1 0.1", "has a value that is no number"),
        ("0 0.5 1.5 0.1 0.1", "has a coordinate that is not from 0 to 1"),
        ("0 nan 0.5 0.1 0.1", "has a coordinate that is not from 0 to 1"),
    ],
)
def test_a_wrong_label_is_named_by_file_and_line(tmp_path, line, problem) -> None:
    file = yolo(tmp_path)
    write(tmp_path / "labels/train/b.txt", f"0 0.5 0.5 0.1 0.1\n{line}\n")

    assert violations(file) == {"labels/train/b.txt": f"line 2 {problem}"}


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"names": ""}, "data.yaml", "names: required here, a list of class names"),
        ({"names": "{0: car, 2: bus}"}, "data.yaml", "names: must be numbered from 0 to 1 without a gap"),
        ({"nc": "3"}, "data.yaml", "nc: is 3, but there are 2 names"),
        ({"names": "[car, car]"}, "data.yaml", "names: has a blank or repeated name"),
        ({"train": ""}, "data.yaml", "train: required here"),
        ({"train": "3"}, "data.yaml", "train: must be a path or a list of paths"),
        ({"val": "images/none"}, "images/none", "is not there, but val names it"),
        ({"val": "images/train"}, "images/train/b.png", "is in train and in val"),
        ({"val": "/etc"}, "../../../../../etc", "leads out of the data set's folder by a symbolic link or `..`"),
    ],
)
def test_what_is_wrong_in_data_yaml_is_named(tmp_path, changes, path, message) -> None:
    found = violations(yolo(tmp_path, **changes))

    if path.endswith("/etc"):
        path = os.path.relpath("/etc", tmp_path)
    assert found[path] == message


@pytest.mark.parametrize("content", ["a: [", "just text", "- a list", "!!python/object/apply:os.system [exit 1]"])
def test_a_data_yaml_that_is_no_table_is_refused_and_runs_nothing(tmp_path, content) -> None:
    with pytest.raises(DatasetUnreadableError, match=r"data\.yaml (is no table|cannot be read as YAML)"):
        read_local_dataset(write(tmp_path / "data.yaml", content))


def test_a_data_set_may_have_more_classes_than_a_package_can_name(tmp_path) -> None:
    names = "[" + ", ".join(f"c{index}" for index in range(10_001)) + "]"

    assert len(read_local_dataset(yolo(tmp_path, names=names, nc="")).class_names) == 10_001


# --- COCO ------------------------------------------------------------------------------------------------------------


def test_a_coco_file_gives_each_image_its_own_annotations(tmp_path) -> None:
    found = read_local_dataset(coco(tmp_path))

    assert (found.task_kind, found.annotation_kinds, found.class_names) == (
        "detection", ("detection_coco",), ("car", "dog"),
    )  # fmt: skip
    first, second = found.items
    assert (first.item_id, first.split, first.metadata) == ("train2017/a.png", "train", {"file_name": "a.png"})
    assert json.loads(first.annotation) == {
        "image": {"id": 1, "file_name": "a.png", "width": 1, "height": 1},
        "annotations": [
            {
                "id": 1, "image_id": 1, "category_id": 18, "bbox": [0, 0, 1, 1],
                "segmentation": [[0, 0, 1, 1, 0, 1]], "class_name": "dog",
            },
            {"id": 2, "image_id": 1, "category_id": 3, "bbox": [0, 0, 0.5, 1], "class_name": "car"},
        ],
    }  # fmt: skip
    assert json.loads(second.annotation)["annotations"] == []


def test_the_folder_of_a_coco_data_set_gives_all_its_splits(tmp_path) -> None:
    coco(tmp_path)
    content = json.loads((tmp_path / "annotations/instances_train2017.json").read_text())
    content |= {"images": [{"id": 7, "file_name": "z.png"}], "annotations": []}
    write(tmp_path / "annotations/instances_val2017.json", json.dumps(content))
    write(tmp_path / "val2017/z.png", png("z"))

    assert {item.item_id: item.split for item in read_local_dataset(tmp_path).items} == {
        "train2017/a.png": "train", "train2017/b.png": "train", "val2017/z.png": "val",
    }  # fmt: skip


def test_an_export_with_its_images_beside_each_file_is_understood(tmp_path) -> None:
    coco(tmp_path)
    write(tmp_path / "valid/a.png", png("v"))
    write(tmp_path / "valid/b.png", png("w"))
    (tmp_path / "annotations/instances_train2017.json").rename(tmp_path / "valid/_annotations.coco.json")

    found = read_local_dataset(tmp_path)

    assert [(item.item_id, item.split) for item in found.items] == [("valid/a.png", "val"), ("valid/b.png", "val")]


def test_a_file_beside_a_folder_of_images_is_understood(tmp_path) -> None:
    file = coco(tmp_path).rename(tmp_path / "labels.json")
    (tmp_path / "train2017").rename(tmp_path / "images")

    assert [(item.item_id, item.split) for item in read_local_dataset(file).items] == [
        ("images/a.png", "unspecified"),
        ("images/b.png", "unspecified"),
    ]


@pytest.mark.parametrize(
    ("file", "split"),
    [
        ("annotations/instances_val2017.json", "val"),
        ("train/_annotations.coco.json", "train"),
        ("coco_test.json", "test"),
        ("data/labels.json", "unspecified"),
        ("constraints.json", "unspecified"),
    ],
)
def test_the_split_stands_in_the_name(tmp_path, file, split) -> None:
    assert split_of(tmp_path / file) == split


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"annotations": [], "categories": [{"id": 18, "name": "dog"}, {"id": 3}]}, "categories[1]: must have an integer id and a name"),
        ({"annotations": [], "categories": [{"id": 3, "name": "a"}, {"id": 3, "name": "b"}]}, "categories[1]: repeats an id or name"),
        ({"annotations": [{"image_id": 1, "category_id": 9, "bbox": [0, 0, 1, 1]}]}, "annotations[0]: category_id 9 is no category"),
        ({"annotations": [{"image_id": 1, "category_id": 3, "bbox": [0, 0, 1]}]}, "annotations[0]: bbox must be four numbers, x, y, width and height in pixels"),
        ({"annotations": [{"category_id": 3, "bbox": [0, 0, 1, 1]}]}, "annotations[0]: must have an integer image_id"),
        ({"annotations": [{"image_id": 9, "category_id": 3, "bbox": [0, 0, 1, 1]}]}, "annotations: image_id 9 is no image"),
        ({"images": [{"id": 1, "file_name": "a.png"}, {"id": 1, "file_name": "b.png"}]}, "images[1]: repeats id 1"),
        ({"images": [{"id": 1, "file_name": "a.png"}, {"id": 2}]}, "images[1]: must have an integer id and a file_name"),
        ({"images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "a.png"}]}, "images: train2017/a.png is named twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_coco_file_is_named(tmp_path, changes, message) -> None:
    assert message in [*violations(coco(tmp_path, **changes)).values()]


@pytest.mark.parametrize("name", ["none.png", "../../../etc/passwd.png"])
def test_an_image_that_a_coco_file_names_in_vain_is_named(tmp_path, name) -> None:
    found = violations(coco(tmp_path, images=[{"id": 1, "file_name": name}], annotations=[]))

    assert found[name] == "is not there, but annotations/instances_train2017.json names it"


def test_an_image_outside_the_folder_is_refused(tmp_path) -> None:
    write(tmp_path / "secret.png", png("secret"))
    file = coco(tmp_path / "data", images=[{"id": 1, "file_name": "../../secret.png"}], annotations=[])

    assert "leads out of the data set's folder" in str(violations(file))


@pytest.mark.parametrize("content", ["{", '{"a": 1}', '{"images": {}, "annotations": [], "categories": []}', "[]"])
def test_a_json_file_that_is_no_coco_file_is_refused(tmp_path, content) -> None:
    with pytest.raises(DatasetUnreadableError, match=r"x\.json (is no COCO file|cannot be read as JSON)"):
        read_local_dataset(write(tmp_path / "x.json", content))
