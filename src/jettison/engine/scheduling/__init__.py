"""Where a pod may run and where it runs best: filters, scores, affinity, taints, preemption.

Room that a node makes for a critical pod is in `engine/pods`.
"""
