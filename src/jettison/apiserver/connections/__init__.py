"""Sockets: accepting, TLS, and what one connection, one user and all together may cost.

What a request asks is not looked at here.
"""
