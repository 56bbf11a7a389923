"""A node that exists only as numbers: its machine, its pods and their usage, in virtual time.

Pods live by `engine/lifecycle`, driven here as the host drives it; memory, disks and process ids are sums of lines that
bend now and then. Nothing waits, nothing reads a clock, and nothing is rounded, so the same events give the same
numbers. Whatever knows several nodes, budgets or controllers belongs into `simulator`.
"""
