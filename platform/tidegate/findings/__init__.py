"""Why a window is not closed: causes told from stored metadata, brokers and locks, without a JVM."""

from __future__ import annotations

from tidegate.findings.diagnose import diagnose
from tidegate.findings.look import LookResult, look
from tidegate.findings.memory import EarlierLooks
from tidegate.findings.model import KINDS, Finding, Severity, Waiting

__all__ = ["KINDS", "EarlierLooks", "Finding", "LookResult", "Severity", "Waiting", "diagnose", "look"]
