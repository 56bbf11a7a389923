"""The agent loops: observe, decide, act, say what happened, again.

It holds what a node needs to be guarded by any runtime: the loop, admission, the manifests somebody wants to run, the
journal and the other places facts go to. It knows the runtime protocol and no concrete runtime, and it makes no
decision of its own about who is evicted: that is the engine's. Only `Agent.run` lets time pass; `Agent.step` never
sleeps, so a simulator can drive it.
"""
