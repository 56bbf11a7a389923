"""The StatefulSet controller.

What a StatefulSet does next is decided in `engine/workloads`.
"""
