"""SERVES: the part of the Kubernetes API that eviction needs, on one machine.

Here live the resources (`resources`, the one table that everything else reads), their storage (`store`), what happens
to a request (`app`, `rest`, `deletion`, `eviction`, `patch`, `validation`, `admission`, `watch`) and the edge that real
clients touch (`auth`, `discovery`, `tables`, `server`).

Objects are plain JSON values: a field that we have never heard of survives. Whatever can be decided without a store
or a clock is decided in `jettison.engine`; nothing in here reconciles anything, that is what controllers do, through
the API like everybody else.
"""
