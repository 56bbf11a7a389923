"""Pods of this host from their start to their end, and what is remembered of them across a restart.

No rule about a pod's life is here: those are in `engine/lifecycle`, and `pod_worker` carries out what they say.
"""
