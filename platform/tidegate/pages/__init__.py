"""The generated documentation: every source, table, view and sink of a project as a static site without a network."""

from __future__ import annotations

from tidegate.pages.model import document
from tidegate.pages.site import write_site

__all__ = ["document", "write_site"]
