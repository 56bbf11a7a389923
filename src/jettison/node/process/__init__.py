"""The process that carries out settings: where it begins, its frame, and what protects it.

`handover` executes the command line again, `entry` loads what the settings need, `frame` runs it until it is told to
end. What is guarded or served in it is chosen in `entry` and lives outside; no option is parsed here.
"""
