"""Products, device memory and cuts of all kinds."""

from hypothesis import strategies as st

from wavetrim.kernels.schedule.panels import DEPTH_QUANTUM, Cut, PanelProblem

sizes = st.one_of(
    st.tuples(*3 * [st.integers(1, 1200)]),
    st.tuples(st.integers(1, 300), st.integers(4000, 20_000), st.integers(100, 600)),  # C is large
    st.tuples(st.integers(1, 200), st.integers(1, 200), st.sampled_from([8192, 16_384, 24_576])),
)


def build_problems(shapes):
    """Products of some shapes, by kernels of all kinds."""
    return st.builds(
        lambda shape, **values: PanelProblem(*shape, **values),
        shape=shapes,
        item_bytes=st.sampled_from([2, 4, 8]),
        tile_m=st.sampled_from([16, 32, 128]),
        tile_n=st.sampled_from([16, 32, 256]),
        tile_k=st.sampled_from([4, 8, 32]),
        slots=st.sampled_from([4, 40, 132]),
        term_item_bytes=st.sampled_from([0, 6]),
        stream_k_tail=st.booleans(),
        stream_k_short=st.booleans(),
        b_resident=st.booleans(),
    )


problems = build_problems(sizes)
budgets = st.one_of(st.integers(1 << 20, 1 << 26), st.just(1 << 32))
"""Bytes of device memory."""

cuts = st.builds(
    Cut,
    first_rows=st.integers(60, 1200),
    panel_rows=st.integers(60, 1200),
    depth=(st.integers(1, 5) | st.integers(2, 300)).map(lambda parts: parts * DEPTH_QUANTUM),
)
"""Any, but those of very many steps."""
