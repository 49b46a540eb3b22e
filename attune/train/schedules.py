"""Learning-rate schedules, as factors of the peak rate."""

from __future__ import annotations


def rate(schedule: str, step: int, *, peak: float, warmup: int, total: int, d_model: int) -> float:
    """The learning rate at a step (counted from 1).

    >>> round(rate("noam", 8000, peak=1.0, warmup=8000, total=0, d_model=300), 6)
    0.000645
    >>> rate("linear", 55, peak=1.0, warmup=10, total=100, d_model=0)
    0.5
    """
    if schedule == "noam":
        return float(peak * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
    up = min(1.0, step / warmup)
    if schedule == "linear" and step > warmup:
        return peak * max(0.0, (total - step) / max(1, total - warmup))
    return peak * up
