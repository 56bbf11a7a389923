"""What an object says where its author said nothing: filled in when it is read, so that every reader sees it.

These functions write into the object they get; it was made by `schema` a moment before and nobody else has it.
"""
