"""`python -m jettison`."""

from jettison.cli import main

main()
