"""The commands of the command line, one a file, and what they share."""
