"""What all benchmarks use: the `environment`, `operands`, exact references, tables in pages."""
