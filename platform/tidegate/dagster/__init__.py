"""tidegate in Dagster: assets, checks, a sensor, schedules, a resource and a component.

    from tidegate.dagster import load_definitions
    defs = load_definitions("path/to/project")

Importing this loads Dagster, and neither pyspark nor pandas: code servers and sensors have no JVM.
"""

from __future__ import annotations

from tidegate.dagster.component import TidegateProject
from tidegate.dagster.load import build_definitions, load_definitions
from tidegate.dagster.resource import TidegateResource
from tidegate.dagster.translator import TidegateAsset, TidegateTranslator

__all__ = [
    "TidegateAsset",
    "TidegateProject",
    "TidegateResource",
    "TidegateTranslator",
    "build_definitions",
    "load_definitions",
]
