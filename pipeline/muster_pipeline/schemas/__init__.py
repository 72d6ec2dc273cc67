"""The columns of all tables, defined once: Arrow schemas with a comment per column; Spark's types derive from them."""
