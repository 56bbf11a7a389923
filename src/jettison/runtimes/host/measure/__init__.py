"""What the node and its pods use, read as one consistent instant.

Nothing here waits: alarms are in `runtimes/machine`.
"""
