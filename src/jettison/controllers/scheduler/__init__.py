"""The scheduler: its queue, what it knows of the cluster, and the binding of pods to nodes.

Which node is best is decided in `engine/scheduling`.
"""
