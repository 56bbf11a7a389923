"""GUARDS what others started: containers of Docker and Podman, any cgroup, and what other packages find.

`sources` list workloads, `rules` and labels say how important each is, `pods` makes of both what the engine ranks, and
`runtime` measures and stops. Nothing here starts or removes anything: what Jettison did not start it may stop, and the
tool that started it keeps the last word on what becomes of it.
"""
