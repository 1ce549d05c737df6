"""`python -m wavetrim`: the same as the `wavetrim` command."""

from wavetrim.service.cli.main import main

main()
