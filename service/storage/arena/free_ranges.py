"""Free ranges of addresses, taken by best fit. Numbers only, no memory."""

from bisect import bisect_left, insort


class FreeRanges:
    """The free parts of some regions, by size and by address.

    A range is taken from the smallest free one that is large enough, the lowest of equals. A range
    that is given back is joined with free neighbours, but not across the border of two regions.
    Calls search sorted lists by bisection, so thousands of free ranges cost little more than ten.

    Attributes:
        free_bytes: Sum of all free ranges.
    """

    def __init__(self) -> None:
        self.free_bytes = 0
        self._regions: dict[int, int] = {}  # begin → size
        self._by_size: list[tuple[int, int]] = []  # (size, begin), sorted
        self._size_at: dict[int, int] = {}  # begin → size
        self._begin_before: dict[int, int] = {}  # end → begin

    def add_region(self, begin: int, size: int) -> None:
        """Begin to hand out a region, which is free."""
        self._regions[begin] = size
        self._insert(begin, size)
        self.free_bytes += size

    def remove_region(self, begin: int) -> bool:
        """Stop handing out a region; False if a part of it is taken."""
        if not self.is_region_free(begin):
            return False
        size = self._regions.pop(begin)
        self._delete(begin, size)
        self.free_bytes -= size
        return True

    def is_region_free(self, begin: int) -> bool:
        """Whether a region begins here and all of it is free."""
        size = self._regions.get(begin)
        return size is not None and self._size_at.get(begin) == size

    def take(self, size: int) -> int | None:
        """Take a range of this size; returns where it begins, or None if none is large enough."""
        index = bisect_left(self._by_size, (size, 0))
        if index == len(self._by_size):
            return None
        found, begin = self._by_size.pop(index)
        del self._size_at[begin], self._begin_before[begin + found]
        if found > size:
            self._insert(begin + size, found - size)
        self.free_bytes -= size
        return begin

    def give(self, begin: int, size: int) -> None:
        """Give a range back."""
        self.free_bytes += size
        end = begin + size
        after = self._size_at.get(end)
        if after is not None and end not in self._regions:
            self._delete(end, after)
            size += after
        before = self._begin_before.get(begin)
        if before is not None and begin not in self._regions:
            self._delete(before, begin - before)
            begin, size = before, begin + size - before
        self._insert(begin, size)

    def _insert(self, begin: int, size: int) -> None:
        insort(self._by_size, (size, begin))
        self._size_at[begin] = size
        self._begin_before[begin + size] = begin

    def _delete(self, begin: int, size: int) -> None:
        del self._by_size[bisect_left(self._by_size, (size, begin))]
        del self._size_at[begin], self._begin_before[begin + size]
