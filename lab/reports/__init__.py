"""Reports: the machine (`bench`), and a `report` of it with each `table` and `plot`."""
