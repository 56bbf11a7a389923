"""The Job controller, and the one that deletes finished Jobs.

What a Job does next is decided in `engine/workloads`.
"""
