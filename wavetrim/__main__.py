"""`python -m wavetrim`: the same as the `wavetrim` command."""

from wavetrim.service.cli.start import main

main()
