"""Kubernetes objects (JSON) to engine values and back: pods, `/stats/summary`, KubeletConfiguration files.

Bytes are decoded by msgspec into structs that name only the fields eviction reads, and the structs into engine values.
Fields that no rule reads are skipped, so an object of a newer Kubernetes is as good as any.
A document that is not what it should be becomes a `ManifestError` that says where. No rule of eviction lives here.
"""
