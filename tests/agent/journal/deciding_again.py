"""A recorded step, decided once more: the record must hold all that the decision was made from."""

from __future__ import annotations

from jettison.agent.journal.recorded_steps import RecordedStep
from jettison.engine.node.decide import Outcome, decide, give_up_reclaim


def decide_again(step: RecordedStep) -> list[Outcome]:
    """What this program decides on each look; it should be what the record says."""
    outcomes: list[Outcome] = []
    history = step.history
    for look in step.looks:
        if look.snapshot is None:
            outcomes.append(give_up_reclaim(history))
        else:
            outcomes.append(decide(step.policy, history, look.snapshot))
        history = outcomes[-1].history
    return outcomes
