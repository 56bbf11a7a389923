"""A pod's life as a value: `advance(pod, event) → (pod, effects)`.

Here live the rules about one pod: init order, sidecars, restarts with back-off, probes and their thresholds, phases and
conditions, deadlines, grace periods and escalation, and how a life goes on after the agent's own death. Everything is
pure. What must not be here: processes, cgroups, containers of a runtime, files, clocks. A runtime carries the effects
out and answers with events; it has no rule of its own about a pod's life.
"""
