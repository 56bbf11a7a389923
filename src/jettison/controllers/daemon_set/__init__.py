"""The DaemonSet controller.

Where pods of a set belong is decided in `engine/workloads`.
"""
