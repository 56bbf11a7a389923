"""Pods of this host from their start to their end, and what is remembered of them across a restart."""
