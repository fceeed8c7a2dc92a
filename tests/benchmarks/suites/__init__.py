"""The suites by name, in the order in which they run."""

from __future__ import annotations

from tests.benchmarks.suites import catalogs, change, contests, growth, live, many, ttl
from tests.benchmarks.suites.suite import Suite

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        *contests.SUITES,
        *ttl.SUITES,
        *growth.SUITES,
        *catalogs.SUITES,
        *live.SUITES,
        *many.SUITES,
        *change.SUITES,
    )
}
