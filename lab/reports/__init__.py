"""What a measurement in the lab has and becomes: a `bench`, and a `report` of tables and plots."""
