"""What the agent serves over its socket and on the loopback, and the client that asks it.

The API of Kubernetes is served by `apiserver`, not here.
"""

LONGEST_WAIT = 24 * 3600
"""Seconds that an order may wait for a pod to end. Here, because clients need it and load nothing of the server."""
