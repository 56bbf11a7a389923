"""Commands against a Kubernetes API, and those that serve one: `serve`, `node`, `controllers`, `drain`, `evict`."""
