"""EMPTIES NODES: cordon, drain, the plan of a drain, single evictions; against our API or any Kubernetes.

Which pods go, and what the budgets will say to it, is decided in `engine/drain`; here lives what needs a
network, patience and a deadline. What is said meanwhile goes to a `Voice`, in kubectl's words, so that
scripts written for kubectl can read it. Nothing in here knows whether it speaks to a terminal.

Where we differ from kubectl on purpose: a node that cannot be cordoned is not drained; `--timeout` ends every wait,
also those that a server's `Retry-After` asks for; an eviction names the uid of the pod it means, so that the new pod of
the same name that a StatefulSet makes is left alone; requests are not throttled to five a second.
"""
