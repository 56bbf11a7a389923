"""A Kubernetes API of this machine with its controllers, and nodes that join it: `jettison serve` and `up --nodes`.

What the API answers is in `apiserver`, what controllers do in `controllers`, how a node joins any other API in
`node/member`.
"""
