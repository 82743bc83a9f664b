from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from examples.digits_data import write_digits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The handwritten digits in class folders. Read only."""
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder)
    return folder
