from __future__ import annotations

from webdata_nb.pacing.host_pacing import ConcurrencyWindow


def test_refusal_closes_window_and_successes_widen_it() -> None:
    window = ConcurrencyWindow(3, 3).closed_for(2.0, now=10.0)
    assert (window.size, window.remaining_s(11.0), window.remaining_s(12.0)) == (1, 1.0, 0.0)
    assert window.closed_for(0.5, now=10.0).opens_at == 12.0
    sizes = []
    for _ in range(4):
        window = window.widened()
        sizes.append(window.size)
    assert sizes == [2, 3, 3, 3]
