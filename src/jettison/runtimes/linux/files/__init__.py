"""Files and filesystems: the files of the kernel, trees that pods write in, mounts, quotas, usage on disk.

Nothing here knows which directory is whose: that is in `runtimes/host/volumes`.
"""
