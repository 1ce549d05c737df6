"""The `wavetrim` command: options, output and exit codes; a file a command in `commands/`."""
