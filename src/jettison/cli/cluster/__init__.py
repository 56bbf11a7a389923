"""Commands for a Kubernetes API: `serve`, `store`, `controllers`, `node`, `drain`, `cordon`, `uncordon`, `evict`.

The rules of drains live in `maintenance` and the engine, and the API itself in `apiserver`; here are flags and output.
"""
