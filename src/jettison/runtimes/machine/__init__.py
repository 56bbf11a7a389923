"""What every runtime on this machine needs and none should write again: noticing shortages, walking disks, tasks.

Memory, disk, inodes and process ids are watched here, with the kernel's alarms where it has some; what then happens is
decided by the engine. Nothing here knows what a pod consists of, or how one is ended.
"""
