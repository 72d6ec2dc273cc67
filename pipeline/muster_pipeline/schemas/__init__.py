"""The tables' columns, written down once: Arrow schemas with a comment per column; Spark's types derive from them."""
