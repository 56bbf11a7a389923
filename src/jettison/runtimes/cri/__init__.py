"""A container runtime (containerd, CRI-O) spoken to over its socket, with version 1 of the Container Runtime Interface.

Here is how to ask it and what its answers mean. When something is asked, where a pod's cgroup is, how a container is
measured, signalled and killed is `runtimes/host`'s part: the runtime keeps the books, the kernel acts.
"""
