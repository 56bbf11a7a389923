"""The disruption controller: it keeps the status of every PodDisruptionBudget true.

Whether an eviction is granted is decided in `engine/budgets`, and asked by `apiserver/verbs`.
"""
