from __future__ import annotations

import pytest

from runtime.archive.names import MemberName, comparison_key, is_dependency_file, parse_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train.py", MemberName("train.py", is_folder=False)),
        ("./src//a.py", MemberName("src/a.py", is_folder=False)),
        ("src\\a.py", MemberName("src/a.py", is_folder=False)),
        ("src/", MemberName("src", is_folder=True)),
        ("src\\", MemberName("src", is_folder=True)),
        ("src/.", MemberName("src", is_folder=True)),
        ("./", MemberName("", is_folder=True)),
        (".", MemberName("", is_folder=True)),
        ("..hidden/..a..b", MemberName("..hidden/..a..b", is_folder=False)),
        (" spaced .py", MemberName(" spaced .py", is_folder=False)),
        ("ab:c", MemberName("ab:c", is_folder=False)),
        ("wait….txt", MemberName("wait….txt", is_folder=False)),
    ],
)
def test_a_name_is_read_as_the_path_that_it_unpacks_to(name: str, expected: MemberName) -> None:
    assert parse_name(name) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A/b", "a/B"),
        ("straße", "STRASSE"),
        ("é", "e\u0301"),
        ("ﬁt", "fit"),
        ("Ⅷ", "viii"),
        ("ſ", "S"),
        ("İ", "i\u0307"),
    ],
)
def test_names_that_some_reader_takes_for_one_share_a_key(one: str, other: str) -> None:
    assert comparison_key(one) == comparison_key(other)


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "a/.env",
        ".env/bin/python",
        "requirements.txt",
        "REQUIREMENTS.TXT",
        "requirements.in",
        "conda/environment.yaml",
        "requirements-dev.txt",
        "requirements_gpu.in",
        "requirements.lock.txt",
        "a-1-py3-none-any.whl",
        "a.egg",
        "Pipfile",
        "Pipfile.lock",
        "uv.lock",
        "pylock.toml",
        "constraints.txt",
        "environment.yml",
    ],
)
def test_dependency_files_are_known_in_every_spelling(path: str) -> None:
    assert is_dependency_file(path)


@pytest.mark.parametrize(
    "path",
    ["env", ".envrc.py", "requirements.py", "requirementsx.txt", "my-requirements.md", "wheels.py", "a.whl.py",
     "environment.py", "pyproject.toml", "setup.cfg", "data/labels.txt"],
)  # fmt: skip
def test_files_that_only_look_like_dependencies_are_allowed(path: str) -> None:
    assert not is_dependency_file(path)
