"""Files that people write: bounded reading of YAML and JSON, documents, drop-ins, and the fields of every kind.

What the documents mean is in the modules above.
"""
