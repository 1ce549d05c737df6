"""What compiles the project's C where it first runs, and finds it again. Knows no users of it."""
