"""What was used last is kept, and the rest makes room."""

from concurrent.futures import ThreadPoolExecutor

from wavetrim.kernels.last_used import LastUsed


def test_the_entries_used_longest_ago_make_room() -> None:
    kept = LastUsed[int, str](16)
    for key in range(16):
        kept.keep(key, str(key))
    assert kept.find(0) == "0"
    kept.keep(16, "16")
    found = {key for key in range(17) if kept.find(key) is not None}
    assert found == {0, *range(3, 17)}


def test_a_key_has_one_value_which_may_be_none() -> None:
    kept = LastUsed[str, int | None](1)
    assert kept.find("a") is None
    assert "a" not in kept
    kept.keep("a", 1)
    assert kept.find("a") == 1
    kept.keep("a", None)
    assert "a" in kept
    assert kept.list_values() == [None]
    kept.clear()
    assert len(kept) == 0


def test_several_threads_find_and_keep_within_the_capacity() -> None:
    kept = LastUsed[int, int](8)

    def work(seed: int) -> bool:
        for turn in range(2000):
            key = (seed * 7 + turn) % 24
            found = kept.find(key)
            if found is None:
                kept.keep(key, key)
            elif found != key:
                return False
        return len(kept) <= 8

    with ThreadPoolExecutor(6) as workers:
        assert all(workers.map(work, range(6)))
