"""What compiles the project's C where it first runs, and threads that make calls for others."""
