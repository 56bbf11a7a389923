"""Objects on disk and in memory: the log, its checksums, its repair, and the feed of changes that watches read.

Nothing here knows a kind.
"""
