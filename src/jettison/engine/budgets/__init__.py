"""PodDisruptionBudgets: their arithmetic, their status, and the verdict on one eviction.

Pods that a drain takes or leaves are in `engine/drain`.
"""
