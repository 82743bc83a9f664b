"""From nothing to a registered model that recognises handwriting: `make demo`, or `python -m examples.demo [DIR]`.

Everything the demo does is a command that you can type; it says which. The last step is what any user of the model would
do: open the ONNX file, read from it how images are prepared, and ask it about images that no training has seen.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from PIL import Image

from examples.digits_data import write_digits

PACKAGE = Path(__file__).with_name("digits")
SHOWN = 5
INK = " .:-=+*#%@"


class Answer(NamedTuple):
    """What the model says about one image: the names of the classes, the probability from 0 to 1."""

    path: Path
    true_class: str
    predicted_class: str
    probability: float


def main() -> None:
    """Data, training, model, and the question whether it is any good."""
    parser = argparse.ArgumentParser(description="Train on handwritten digits, register the model, try it.")
    parser.add_argument("folder", type=Path, metavar="DIR", nargs="?", default=Path(".mtr/digits"))
    folder: Path = parser.parse_args().folder
    started = time.monotonic()

    step(f"python -m examples.digits_data {folder}")
    counts = write_digits(folder)
    print(", ".join(f"{count} {split}" for split, count in counts.items()))

    imported = mtr("dataset", "import", str(folder), "--name", "digits-png")
    print(f"{imported['items']} images, snapshot {imported['sha256'][:12]}, {news(imported)}")

    execution = mtr("run", str(PACKAGE), "--data", "digits-png")
    print(execution["result"]["summary"])

    model = execution["model"]
    version = f"{model['name']}@{model['version']}"
    exported = Path(mtr("model", "export", version, "-o", f"{folder}-v{model['version']}.onnx")["path"])

    print(f"\nAsking {exported} about {folder / 'test'}, which no training has seen:", flush=True)
    answers = ask(exported, folder / "test")
    right = sum(answer.predicted_class == answer.true_class for answer in answers)
    print(f"\n{draw(sample(answers))}\n")
    print(f"accuracy   {right / len(answers):.1%}: {right} of {len(answers)} held-out images are recognised")
    print(f"model      {version}, {exported}")
    print(f"stored     {model['object']['bucket']}/{model['object']['object_key']}")
    print(f"execution  mtr executions show {execution['execution_id']}")
    print("UI         mtr up, then open http://127.0.0.1:4200")
    print(f"           {time.monotonic() - started:.0f} s in all, the set-up of .venv not counted")


def step(command: str) -> None:
    """Say which command comes next."""
    print(f"\n$ {command}", flush=True)


def mtr(*arguments: str) -> Any:
    """The JSON answer of the command; its progress is shown while it runs. Ends the demo where it fails."""
    step(shlex.join(["mtr", *arguments]))
    command = [sys.executable, "-m", "services.cli", *arguments, "--json"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    document = json.loads(ended.stdout or "{}")
    if ended.returncode:
        error = document.get("error") or {}
        print(f"{error.get('message')}\n{error.get('hint')}", file=sys.stderr)
        sys.exit(ended.returncode)
    return document


def news(imported: dict[str, Any]) -> str:
    """Whether the data set is new here."""
    return "new" if imported["created"] else "known already: nothing was copied"


def ask(model: Path, folder: Path) -> list[Answer]:
    """What the model says about every image in `folder/CLASS/*.png`, each prepared as the model file itself says."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    about = {key: json.loads(value) for key, value in session.get_modelmeta().custom_metadata_map.items()}
    size = about["preprocessing"]["width"], about["preprocessing"]["height"]
    paths = sorted(folder.glob("*/*.png"))
    images = [Image.open(path).convert("L").resize(size, Image.Resampling.BILINEAR) for path in paths]
    pixels = np.stack([np.asarray(image, np.float32)[np.newaxis] / 255 for image in images])
    (probabilities,) = session.run(["probabilities"], {"images": pixels})
    best = probabilities.argmax(axis=1)
    return [
        Answer(path, path.parent.name, about["class_names"][label], float(row[label]))
        for path, label, row in zip(paths, best, probabilities, strict=True)
    ]


def sample(answers: list[Answer]) -> list[Answer]:
    """A few of them, evenly spaced, so that nobody picked the good ones."""
    return [answers[index] for index in np.linspace(0, len(answers) - 1, SHOWN, dtype=int)]


def draw(answers: list[Answer]) -> str:
    """The images side by side in characters, and under each what it is taken for."""
    columns = []
    for answer in answers:
        with Image.open(answer.path) as image:
            ink = np.asarray(image.convert("L"), int) * (len(INK) - 1) // 255
        verdict = "" if answer.predicted_class == answer.true_class else f", is {answer.true_class}"
        caption = f"{answer.predicted_class} ({answer.probability:.0%}){verdict}"
        columns.append(["".join(INK[level] * 2 for level in row) for row in ink] + [caption.ljust(ink.shape[1] * 2)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


if __name__ == "__main__":
    main()
