"""What the kernel knows and what it lets us do: cgroups, /proc, pressure, filesystems. One noun per module.

Every reader takes the root it reads from, so that a test can hand it a made-up kernel and a benchmark the real one.
Standard library only, nothing of the engine: plain integers (bytes, processes; another unit is in the name) and small
frozen values. No thread, no event loop, no sleep: what can make a program wait
is handed out as an object with `fileno()`.

The kernel's files vanish under the reader all the time; that is normal and comes back as None. Everything else that
goes wrong is translated here, once, into `ObservationError` or `ActionError`.
"""
