"""A node of this machine, put together: runtime, agent, journal, endpoints, logs, manifests and membership.

No option is parsed here and nothing is printed: that is the work of `cli`. No rule lives here either.
"""
