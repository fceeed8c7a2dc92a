"""Messages about findings: routes, quiet hours, deduplication, recovery; delivered by apprise."""

from __future__ import annotations

from tidegate.alerts.deliver import Delivery, Send, deliver
from tidegate.alerts.plan import plan
from tidegate.alerts.state import Message, State

__all__ = ["Delivery", "Message", "Send", "State", "deliver", "plan"]
