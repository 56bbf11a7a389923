"""What containers of a node wrote: found on disk, followed, and served to an API server as a kubelet does.

How lines come to the files is the work of `runtimes/host/volumes`.
"""
