"""Processes of containers: forked, confined, started, entered, and their ends noticed.

Which process is started when is the business of `runtimes/host/pods`.
"""
