"""The journal: what was decided and what came of it, written, read again and told.

What is said as it happens goes to `agent/sinks`.
"""
