"""Jobs: a product that was posted, its row, its way to the engine, its end."""
