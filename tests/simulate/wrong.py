"""What the checks raise."""


class Wrong(AssertionError):
    """A promise that was broken."""
