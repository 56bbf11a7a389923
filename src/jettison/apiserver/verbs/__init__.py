"""What a request does to objects: read, list, watch, write, patch, delete, evict, bind, and the logs of pods.

How a request is read from bytes is in `apiserver/http`, what a kind demands of its objects in `apiserver/objects`.
"""
