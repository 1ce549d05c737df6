"""Credit: how much memory may be taken for bytes that were announced and have not come yet."""


class Credit:
    """The credit of all bodies together. To be used from one event loop.

    Args:
        most_bytes: The most that may be taken.

    Attributes:
        taken_bytes: What is taken now.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.taken_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Take some if enough is left; returns whether it was."""
        fits = self.taken_bytes + size_bytes <= self._most_bytes
        if fits:
            self.taken_bytes += size_bytes
        return fits

    def give(self, size_bytes: int) -> None:
        """Give back what was taken."""
        self.taken_bytes -= size_bytes
