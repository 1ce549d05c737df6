"""Commands for stored matrices: `upload`, `matrices`, `download` and `rm`."""
