"""The one error of this package."""

from __future__ import annotations


class ReportError(ValueError):
    """A run folder cannot be reported: ``message`` says what is wrong, ``hint`` what to do next."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.hint}"
