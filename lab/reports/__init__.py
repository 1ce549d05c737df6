"""Reports of the lab: the machine (`bench`), and a `report` with tables and plots."""
