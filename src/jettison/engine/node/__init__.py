"""Node-pressure eviction: signals, thresholds, conditions, ranking, reclaim, and the order to end a pod.

Every name in a step of `decide` is found here. Budgets and the API have rooms of their own.
"""
