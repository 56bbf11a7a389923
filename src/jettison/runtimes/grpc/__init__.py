"""gRPC as far as container runtimes need it: unary calls over a socket of this machine, and messages by a table.

Which messages there are is the part of the package that has the table, as `runtimes/cri`.
"""
