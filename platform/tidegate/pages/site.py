"""Writes the pages: one for the project, one for each asset, and `catalog.json` with the same for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tidegate.page import protected
from tidegate.pages.drawing import lineage_svg


def write_site(document: dict[str, Any], folder: Path) -> list[str]:
    """Write the site into `folder` (made if it is not there) and return the files, relative to it. Pages of assets that
    are gone are removed. OSError where it can't be written."""
    folder.mkdir(parents=True, exist_ok=True)
    jinja = Environment(
        loader=PackageLoader("tidegate.pages", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    assets = {asset["name"]: asset for asset in document["assets"]}
    links = {name: page_of(name) for name in assets}
    jinja.globals.update(project=document["project"], links=links)
    edges = [(read, asset["name"]) for asset in assets.values() for read in asset["reads"]]
    kinds = {name: asset["kind"] for name, asset in assets.items()}
    files = {
        "index.html": protected(
            jinja.get_template("index.html").render(
                assets=list(assets.values()), svg=Markup(lineage_svg(kinds, edges, links))
            )
        ),
        "catalog.json": json.dumps(document, indent=2, ensure_ascii=False) + "\n",
    }
    for name, asset in assets.items():
        near = _around(name, edges)
        drawing = lineage_svg({n: k for n, k in kinds.items() if n in near}, edges, links, chosen=name)
        files[links[name]] = protected(
            jinja.get_template("asset.html").render(asset=asset, svg=Markup(drawing))
        )
    for old in folder.glob("asset-*.html"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return sorted(files)


def page_of(name: str) -> str:
    """File name of an asset's page."""
    return f"asset-{quote(name, safe='').replace('%', '_')}.html"


def _around(name: str, edges: list[tuple[str, str]]) -> set[str]:
    """Everything that its rows come from or go to, and itself."""
    found = {name}
    for near, far in ((1, 0), (0, 1)):
        edge = {name}
        while edge:
            edge = {e[far] for e in edges if e[near] in edge} - found
            found |= edge
    return found
