from __future__ import annotations

import json
import zipfile

import pytest

from contracts.base import validate
from contracts.limits import MAX_ENTRY_FILE_BYTES
from contracts.package import PackageManifest
from runtime.archive.entrypoint import missing_symbol, names_without
from tests.assets.hostile_packages import MANIFEST

LACKS = [
    "",
    "def trian(context, report):\n    return {}\n",
    "class Trainer:\n    def train(self, context, report):\n        return {}\n",
    "def make():\n    def train(context, report):\n        return {}\n    return train\n",
    "def make():\n    train = 3\n",
    "def make(train):\n    return train\n",
    "import train_all\nfrom somewhere import fit\nreport = print('train', train_all)\n",
    "if __name__ == '__main__':\n    train({}, print)\n",
    "made = lambda train: train\n",
]
MAY_HAVE = [
    "def train(context, report):\n    return {}\n",
    "async def train(context, report):\n    return {}\n",
    "class train:\n    pass\n",
    "train = functools.partial(fit, 3)\n",
    "train: object\n",
    "first, (train, *rest) = make()\n",
    "import train\n",
    "import train.inner\n",
    "from .steps import fit as train\n",
    "from steps import train\n",
    "try:\n    import torch\nexcept ImportError:\n    def train(context, report): ...\n",
    "if FAST:\n    pass\nelse:\n    with lock:\n        for one in range(1):\n            def train(c, r): ...\n",
    "match thing:\n    case {'a': train}:\n        pass\n",
    "match thing:\n    case [*train]:\n        pass\n",
    "match thing:\n    case {**train}:\n        pass\n",
    "found = [train := 3]\n",
    "@(train := make)\ndef other(): ...\n",
    "def other(value=(train := 3)): ...\n",
    "for train in range(3): ...\n",
    "with make() as train: ...\n",
    "def make():\n    global train\n    train = 3\nmake()\n",
    # what only running it would tell
    "from steps import *\n",
    "globals()['train'] = print\n",
    "globals().update(make())\n",
    "vars()['train'] = print\n",
    "exec('def train(c, r): ...')\n",
    "import builtins\nbuiltins.__dict__['exec'](make())\n",
    "from builtins import exec as run\nrun(make())\n",
    "import sys\nsys.modules[__name__] = make()\n",
    "import sys\nsetattr(sys, 'x', 3)\n",
    "from sys import modules\nmodules[__name__] = make()\n",
    "import inspect\ninspect.currentframe().f_globals['train'] = print\n",
    "def __getattr__(name):\n    return make(name)\n",
    "def make(): ...\nmake.__globals__['train'] = make\n",
    # what another Python may read
    "def train(:\n",
    "def fit(context, report:\n",
    "\0",
    "(" * 5000,
    "# -*- coding: no-such-coding -*-\n",
]


@pytest.mark.parametrize("source", LACKS)
def test_what_clearly_does_not_define_the_name(source) -> None:
    assert names_without(source.encode(), "train") is not None


@pytest.mark.parametrize("source", MAY_HAVE)
def test_whatever_may_define_the_name_passes(source) -> None:
    assert names_without(source.encode(), "train") is None


def test_nothing_of_the_source_runs(tmp_path) -> None:
    names_without(f"open({str(tmp_path / 'ran')!r}, 'w')\nimport {tmp_path.name}\n".encode(), "train")
    assert list(tmp_path.iterdir()) == []


def archive_with(path, source: bytes, **changes):
    manifest = {**MANIFEST, **changes}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("training_package.json", json.dumps(manifest))
        archive.writestr(manifest["entrypoint"], source)
    return path, validate(PackageManifest, manifest)


def test_the_advice_names_the_file_the_symbol_and_the_closest_name(tmp_path) -> None:
    archive, manifest = archive_with(tmp_path / "p.zip", LACKS[1].encode(), entrypoint="src/main.py")
    said = missing_symbol(archive, manifest)
    assert said == "entrypoint_symbol: src/main.py defines nothing called train; did you mean trian?"


def test_the_symbol_is_the_manifest_s(tmp_path) -> None:
    archive, manifest = archive_with(tmp_path / "p.zip", LACKS[1].encode(), entrypoint_symbol="trian")
    assert missing_symbol(archive, manifest) is None


def test_a_file_that_is_too_large_to_read_for_advice_passes(tmp_path) -> None:
    archive, manifest = archive_with(tmp_path / "p.zip", b"#" * (MAX_ENTRY_FILE_BYTES + 1))
    assert missing_symbol(archive, manifest) is None
