"""What a workload does next: ReplicaSets, Deployments, StatefulSets, DaemonSets and Jobs as values.

Requests are made by `controllers`.
"""
