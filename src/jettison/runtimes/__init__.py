"""Runtimes observe and act. Here live the adapters between the engine's values and a world that has pods in it.

One adapter per file or folder, and none knows another: whatever two of them need is a reader in `linux`, a part of
`machine`, or it belongs further down. An adapter measures, ends pods and frees resources when told to; it never decides
which. It knows neither the agent's loop nor its sinks, and what it cannot measure it reports as None, never as zero.
"""
