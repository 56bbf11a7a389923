"""SERVES: the part of the Kubernetes API that eviction needs, on one machine.

* `storage`: objects on disk and in memory
* `connections`: sockets, TLS, and what connections and requests may cost
* `access`: authentication and authorization
* `http`: from the bytes of a request to the bytes of its answer
* `objects`: the kinds; `objects/resources.py` is the one table that all other rooms read
* `verbs`: what a request does to objects
* `cluster` puts them together over one state directory, `housekeeping` is what the server does without being asked

Objects are plain JSON values; unknown fields are dropped as they arrive. Whatever can be decided without a store or a
clock is decided in `jettison.engine`. Nothing in here reconciles anything: controllers do that, through the API like
every other client.
"""
