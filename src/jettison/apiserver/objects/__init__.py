"""Kinds of objects: the table of resources, and their schema, defaults, validation, patches and printed forms.

Nothing here reads a request or the disk.
"""
