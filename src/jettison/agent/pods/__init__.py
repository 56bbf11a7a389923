"""Which pods the node should run: from manifests and from an API, kept, held back and admitted again.

How a pod runs is the work of a runtime.
"""
