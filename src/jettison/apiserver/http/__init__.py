"""From the bytes of a request to the bytes of its answer: routing, bodies, media types, discovery, health.

What a verb does is in `apiserver/verbs`.
"""
