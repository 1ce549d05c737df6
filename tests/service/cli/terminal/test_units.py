import pytest

from wavetrim.service.cli.terminal.units import format_bytes, format_gflops, format_seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (4.2e-9, "4.20 ns"),
        (5e-7, "500 ns"),
        (1e-6, "1.00 µs"),
        (0.00012345, "123 µs"),
        (0.99999, "1.00 s"),
        (0.0123, "12.3 ms"),
        (61.25, "61.2 s"),
        (3600.0, "3600 s"),
    ],
)
def test_seconds_have_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (16 * 2**20, "16.0 MiB"),
        (2**40, "1.00 TiB"),
    ],
)
def test_bytes_are_counted_in_powers_of_two(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_rates_turn_into_tera_at_a_thousand() -> None:
    assert format_gflops(473) == "473 GFLOP/s"
    assert format_gflops(66_900) == "66.9 TFLOP/s"
