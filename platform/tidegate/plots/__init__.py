"""Plots as PNG, from plain numbers. matplotlib is imported when one is drawn, never before."""

from __future__ import annotations

from tidegate.plots.curves import completeness, lateness
from tidegate.plots.times import delays, lag, reconciliation, watermark_timeline

__all__ = ["completeness", "delays", "lag", "lateness", "reconciliation", "watermark_timeline"]
