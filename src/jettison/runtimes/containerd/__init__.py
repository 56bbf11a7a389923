"""containerd asked by its own interface, for containers that CRI does not show: those of `ctr`, nerdctl and others.

Only looks and signals; what it finds becomes workloads of `runtimes/adopted`. Pods are CRI's (`runtimes/cri`).
"""
