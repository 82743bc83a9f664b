"""`/docs`: the OpenAPI document for people, in one page that loads nothing from anywhere."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

router = APIRouter(include_in_schema=False)

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}"
    "code,pre{font:14px/1.45 ui-monospace,monospace}pre{background:#f3f4f6;padding:.75rem;overflow:auto}"
    "summary{cursor:pointer;padding:.25rem 0}dt{font-weight:600}"
)


@router.get("/docs")
async def show_page(request: Request) -> HTMLResponse:
    """Show every operation with its bodies, examples and refusals."""
    return HTMLResponse(
        rendered(request.app.openapi()),
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
    )


def rendered(document: Mapping[str, Any]) -> str:
    """`document` as HTML; whatever it says is text there."""
    info = document["info"]
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(info['title'])}</title><style>{_STYLE}</style>"
    intro = f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info.get('description', ''))} "
    intro += 'For programs: <a href="openapi.json">openapi.json</a>.</p>'
    return head + intro + "".join(_operations(document)) + "</html>"


def _operations(document: Mapping[str, Any]) -> Iterator[str]:
    heading = None
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = next(iter(operation.get("tags", [])), "more")
            if tag != heading:
                heading = tag
                yield f"<h2>{escape(tag)}</h2>"
            yield f"<details><summary><code>{method.upper()} {escape(path)}</code></summary>"
            yield f"<p>{escape(operation.get('description', ''))}</p>"
            for parameter in operation.get("parameters", []):
                yield f"<p><code>{escape(parameter['name'])}</code> ({escape(parameter['in'])}): "
                yield f"{escape(parameter.get('description', ''))}</p>"
            yield from _contents("Body", operation.get("requestBody", {}))
            for status, answer in sorted(operation["responses"].items()):
                yield from _contents(f"{status}: {answer.get('description', '')}", answer)
            yield "</details>"


def _contents(title: str, described: Mapping[str, Any]) -> Iterator[str]:
    if not described:
        return
    yield f"<p>{escape(title)} "
    yield f"{escape(', '.join(described.get('content', {})))}</p>"
    for content in described.get("content", {}).values():
        if "example" in content:
            example = content["example"]
            shown = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
            yield f"<pre>{escape(shown)}</pre>"
