"""Where facts go: the log, Kubernetes Events, metrics, the journal. Each is one file, and none knows another.

A sink turns facts into its own form and keeps or hands on what it made. It returns at once, never raises and never
grows without end, because it is called while the node starves. It decides nothing and measures nothing.
"""
