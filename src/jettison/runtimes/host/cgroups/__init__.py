"""Where pods are kept: the cgroups of a node, or groups of processes where no cgroup can be had.

What a cgroup is on this machine is in `runtimes/linux/cgroups`.
"""
