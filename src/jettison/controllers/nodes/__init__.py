"""Controllers of nodes: heartbeats to conditions, conditions to taints, taints to deleted pods.

Which taints a pod tolerates is decided in `engine/scheduling`.
"""
