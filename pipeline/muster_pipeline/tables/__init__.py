"""The catalogue of tables, and the reference that is generated from it."""
