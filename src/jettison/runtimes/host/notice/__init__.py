"""Noticing within milliseconds that memory, disk, inodes or process ids run out, and that the kernel killed.

What then happens is decided by the engine.
"""
