"""Which user sends a request and what it may do: tokens, certificates, roles, NodeRestriction, reviews.

What the request does when it is allowed is in `apiserver/verbs`.
"""
