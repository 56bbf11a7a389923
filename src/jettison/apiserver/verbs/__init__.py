"""What a request does to objects: read, list, watch, write, delete, evict, bind, and the logs of pods."""
