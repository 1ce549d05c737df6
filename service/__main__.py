"""`python -m service`: the same as the `wavetrim` command."""

from service.cli import main

main()
