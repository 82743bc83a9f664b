"""Which documents are read, as what, and why the others are not."""

from __future__ import annotations

import pytest

from contracts.errors import InvalidSettingsError
from contracts.limits import MAX_PLATFORM_SETTINGS_BYTES
from runtime.platform_settings.document import read_document


def value_of(text: str) -> object:
    return read_document(f"model-training-runtime:\n  key: {text}\n".encode())["model-training-runtime"]["key"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("TRUE", "TRUE"),
        ("on", "on"),
        ("yes", "yes"),
        ("off", "off"),
        ("y", "y"),
        ("!!bool yes", "yes"),
        ('"true"', "true"),
        ("1", 1),
        ("-12", -12),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2024-01-01", "2024-01-01"),
        ("null", None),
        ("~", None),
        ("", None),
        ("[a, 1]", ["a", 1]),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_a_plain_scalar_means_what_it_says(text: str, value: object) -> None:
    found = value_of(text)

    assert (found, type(found)) == (value, type(value))


def test_only_our_sections_are_read() -> None:
    text = b"gateway: {port: 80, secret: !!python/object/apply:os.system [x]}\nlocal-s3-config: {region: eu}\n"

    assert read_document(text) == {"local-s3-config": {"region": "eu"}}


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n", b"null\n", b"other: 1\n"])
def test_a_document_without_our_sections_says_nothing(text: bytes) -> None:
    assert read_document(text) == {}


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert read_document("\ufefflocal-s3-config: {}\n".encode()) == {"local-s3-config": {}}


def test_anchors_and_merges_work() -> None:
    text = b"shared: &s3 {region: eu, endpoint: x}\nlocal-s3-config: {<<: *s3, region: us}\n"

    assert read_document(text) == {"local-s3-config": {"region": "us", "endpoint": "x"}}


BOMB = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"x" * (MAX_PLATFORM_SETTINGS_BYTES + 1), "it is larger than 1048576 bytes"),
        (b"a: \xff", "byte 3 is not UTF-8"),
        (b"- a\n- b\n", "it is no table of sections, line 1"),
        (b"a: 1\n---\nb: 1\n", "but found another document, line 2"),
        (b"a: 'open\n", "found unexpected end of stream, line 2"),
        (b"a: \x01", "it has a character that YAML does not allow"),
        (b"a: " + b"[" * 40 + b"]" * 40, "it is deeper than 32 levels, line 1"),
        (b"[" * 900, "it is deeper than 32 levels, line 1"),
        (b"a: [" + b"1," * 120_000 + b"]", "it has more than 100000 values"),
        (BOMB.encode() + b"local-s3-config: *i\n", "local-s3-config has more than 100000 values, line 9"),
        (MERGE_BOMB.encode() + b"local-s3-config: *i\n", "local-s3-config has more than 100000 values, line 9"),
        (b"local-s3-config: &a {b: *a}\n", "it contains itself, line 1"),
        (b"local-s3-config: {}\nlocal-s3-config: {}\n", "local-s3-config is given twice, line 1"),
        (
            b"model-training-runtime:\n  execution:\n    enabled: false\n    enabled: true\n",
            "model-training-runtime.execution.enabled is given twice, line 3",
        ),
        (b"local-s3-config: {region: !!python/name:os.system x}\n", "could not determine a constructor for the tag"),
        (b"local-s3-config: {region: !!int x}\n", "a value is not of the type that its tag says"),
        (b"local-s3-config: {? [a] : b}\n", "found unhashable key, line 1"),
        (b"local-s3-config: {region: *nobody}\n", "undefined alias"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidSettingsError) as refused:
        read_document(text)

    assert reason in refused.value.message


def test_a_refusal_quotes_nothing_of_the_document() -> None:
    with pytest.raises(InvalidSettingsError) as refused:
        read_document(b"local-s3-config:\n  secret_key: 'hush\n")

    assert "hush" not in str(refused.value.to_document())


def test_two_of_another_service_s_keys_are_its_own_business() -> None:
    assert read_document(b"a: 1\na: 2\nlocal-s3-config: {}\n") == {"local-s3-config": {}}
