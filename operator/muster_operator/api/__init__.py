"""The kinds of `muster.dev/v1alpha1` as typed values: one source for definitions, parser and field tables. Pure."""
