"""A drain: which pods go, in which order, which budgets stop it, and what would let it go on.

Requests, waits and what is printed are in `maintenance` and `cli`.
"""
