"""The one exception for everything a user can cause."""


class CrossNERError(Exception):
    """A known problem: what was found and where, and the way out.

    Args:
        problem: The value found and the place it was found in.
        hint: What to do next, as a corrected call where there is one.
    """

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem}\n{self.hint}" if self.hint else self.problem


class BadLine(CrossNERError):
    """A line of a file that cannot be read, where those around it can."""
