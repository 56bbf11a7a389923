"""Cgroups of both versions: made, limited, measured, watched and killed.

How a node lays its cgroups out is in `runtimes/host/cgroups`.
"""
