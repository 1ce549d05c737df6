"""How C is divided among blocks and multiprocessors, and the order of bulk's blocks over tiles."""

import subprocess
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.environment import ROOT
from tests.kernels.specs import name_spec
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.gemm.half import count_blocks
from wavetrim.kernels.gemm.launch import prepare_tiles
from wavetrim.kernels.gemm.operands import Layout, Product
from wavetrim.kernels.gemm.tails import FIX_UP_STEPS, divide_tiles

HALVES = [
    spec for dtype in ("float16", "bfloat16") for spec in list_kernels(dtype=dtype) if spec.source
]


def test_more_tiles_than_a_grid_has_blocks_are_refused(tmp_path):
    spec, wide = find_kernel("simple", "float32", "4"), Layout(0, 1 << 18, 1 << 18, 1 << 18, 4)
    with pytest.raises(OperandError, match=r"C has 4294967296 tiles; simple 4x4x4 .* at most"):
        prepare_tiles(spec, Product(wide, wide, wide, 1, 1, 0), tmp_path)


@given(tiles=st.integers(1, 10_000), steps_k=st.integers(1, 5000), sms=st.integers(1, 200))
def test_a_division_shares_the_last_wave_and_is_between_even_shares_and_whole_tiles(
    tiles, steps_k, sms
):
    division = divide_tiles(tiles, steps_k, sms)
    assert tiles * steps_k / sms <= division.steps <= -(-tiles // sms) * steps_k
    assert 1 <= division.blocks <= min(sms, tiles * steps_k)
    assert division.shared_tiles in (0, tiles % sms)
    if division.shared_tiles and tiles > sms:
        assert division.blocks == sms


def test_a_tail_is_split_where_that_is_worth_its_cost():
    assert divide_tiles(512, 256, 132).shared_tiles == 512 % 132  # 4096³ on an H200
    assert divide_tiles(512, FIX_UP_STEPS, 132).shared_tiles == 0  # a short K
    assert divide_tiles(264, 256, 132).shared_tiles == 0  # full waves


@pytest.mark.parametrize("spec", HALVES, ids=name_spec)
@given(tiles=st.integers(1, 100_000), sms=st.integers(2, 200))
def test_blocks_are_the_fewest_whole_clusters_that_need_no_more_waves(spec, tiles, sms):
    cluster, blocks = spec.sms_quantum, count_blocks(spec, tiles, sms)
    most = sms - sms % cluster
    assert 0 < blocks <= most
    assert blocks % cluster == 0
    assert -(-tiles // blocks) == -(-tiles // most)
    if blocks > cluster:
        assert -(-tiles // (blocks - cluster)) > -(-tiles // most)


Case = namedtuple("Case", "tiles shared_tiles steps_k workers")
Item = namedtuple("Item", "worker tile first steps contributes waits_for")


def draw_cases():
    """Divisions as of launches on 1…140 multiprocessors, and others."""
    yield Case(4096, 4, 16, 132)  # 8192x8192x256 in tiles of 128x128: fewer steps than workers
    generator = np.random.default_rng(0)
    for _ in range(300):
        tiles, steps_k, sms = (int(generator.integers(1, most)) for most in (300, 60, 141))
        division = divide_tiles(tiles, steps_k, sms)
        yield Case(tiles, division.shared_tiles, steps_k, division.blocks)
        yield Case(tiles, tiles % sms, steps_k, sms)


def run_walks(program):
    """What each worker does, by the kernel's own source on the host, for each case."""
    source, include = Path(__file__).with_name("walk_driver.cpp"), ROOT / "kernels" / "cuda"
    subprocess.run(["c++", "-std=c++17", f"-I{include}", "-o", program, source], check=True)
    cases = list(draw_cases())
    lines = "".join(" ".join(map(str, case)) + "\n" for case in cases)
    answer = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return zip(cases, answer.stdout.split("\n\n"), strict=False)


@pytest.mark.needs("c++")
def test_workers_compute_every_step_once_in_even_shares_and_owners_wait_for_who_contributes(
    tmp_path,
):
    for case, text in run_walks(tmp_path / "walk"):
        rows = [[int(word) for word in line.split()] for line in text.splitlines() if line]
        items = [Item(*row[:4], bool(row[4]), tuple(row[5:])) for row in rows]
        counts = np.zeros((case.tiles, case.steps_k), int)
        shares, own = [0] * case.workers, [[] for _ in range(case.workers)]
        for item in items:
            assert item.steps > 0
            counts[item.tile, item.first : item.first + item.steps] += 1
            shares[item.worker] += item.steps
            own[item.worker].append(item.contributes)
            assert all(other < item.worker for other in item.waits_for), "it may start later"
        assert (counts == 1).all(), case
        assert not any(any(contributes[1:]) for contributes in own), "once at most, and first"
        contributions = {(item.worker, item.tile) for item in items if item.contributes}
        awaited = {(other, item.tile) for item in items for other in item.waits_for}
        assert awaited == contributions, case
        ragged = case.steps_k if (case.tiles - case.shared_tiles) % case.workers else 0
        assert max(shares) - min(shares) <= 1 + ragged, case
