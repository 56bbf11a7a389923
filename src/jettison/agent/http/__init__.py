"""What the agent serves over its socket and on the loopback, and the client that asks it.

The API of Kubernetes is served by `apiserver`, not here.
"""
