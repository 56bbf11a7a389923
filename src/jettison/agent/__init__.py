"""The agent loops: observe, decide, act, say what happened, again.

It holds what a node needs to be guarded by any runtime: the loop, admission, the manifests to run, the
journal and the other places facts go to. It knows the runtime protocol and no concrete runtime, and it makes no
decision of its own about evictions: those are the engine's. Only `Agent.run` lets time pass; `Agent.step` never
sleeps, so a simulator can drive it.
"""
