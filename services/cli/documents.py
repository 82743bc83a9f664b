"""How a JSON document reaches stdout, whatever it holds and whatever stdout can encode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO


def write_document(stream: TextIO, document: Any) -> None:
    """Afterwards `stream` has got exactly one JSON document and a line feed.

    Text that the stream cannot encode (a file name that is no Unicode, a terminal that is no UTF-8) is escaped; what
    is no JSON value, in an error's evidence, becomes its text.
    """
    text = json.dumps(document, ensure_ascii=False, indent=2, default=str)
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, ensure_ascii=True, indent=2, default=str)
    stream.write(text + "\n")
    stream.flush()
