"""The kinds of `muster.dev/v1alpha1` as typed values: the one source of CRDs, parser and field tables. Pure."""
