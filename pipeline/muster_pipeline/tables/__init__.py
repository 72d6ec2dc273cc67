"""Which tables there are, and the reference that is generated from them."""
