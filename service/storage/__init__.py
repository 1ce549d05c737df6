"""What is kept: the data folder, the database, the matrices and their .npy files."""
