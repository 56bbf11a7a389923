"""The Deployment controller: a ReplicaSet for each template, and the rollout between them.

How large each ReplicaSet may be is decided in `engine/workloads`.
"""
