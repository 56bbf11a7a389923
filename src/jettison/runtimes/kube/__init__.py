"""A Kubernetes API, ours or any other, as the rest of Jettison sees it: objects are plain JSON values.

Here live the way in (`kubeconfig`, `credentials`), the requests (`client`), the kinds we ask for (`kinds`), what the
server last told of a kind (`cache`) and the translation of answers into errors (`answers`). Nothing in here decides
anything about a pod, and nothing but the requests themselves is tried again: the caller
decides what a refused eviction means.
"""
