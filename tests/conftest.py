"""Two hypothesis profiles: `fixed` (the default) draws the same examples in every run, `explore` draws new ones.

A failure that shows up in one run of ten teaches nobody anything in continuous integration, so chance is switched off
there. To look for trouble on purpose: `pytest --hypothesis-profile=explore`.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No deadline per example: it would be wall-clock time, which on a busy machine says nothing. Hangs end by timeout.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile("fixed")
