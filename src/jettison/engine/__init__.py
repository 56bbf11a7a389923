"""The engine decides. Here live the rules: what is starved, what to free, whom to evict, in which order and why.

Everything in here is pure: values in, values out, the standard library only. No clock, no log, no file, no socket, no
JSON. The world comes in as a `Snapshot`, the operator's wishes as a `Policy`, the past as a `History`; out comes an
`Outcome`. Whoever needs to measure, to wait or to act belongs into `runtimes` or `agent`.

Instants are integer nanoseconds since the epoch and carry `_ns` in their name, as do lengths of time finer than
seconds. What could not be measured is None, never zero.
"""
