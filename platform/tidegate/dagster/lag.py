"""The verdict behind the check `watermark_lag`; it is told in `tidegate.findings`, where nothing needs Dagster."""

from __future__ import annotations

from tidegate.findings.lag import Lag, judge, read_lags

__all__ = ["Lag", "judge", "read_lags"]
