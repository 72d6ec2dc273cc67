"""Bytes of record batches and of the records that Muster writes: encoding, decoding, checks. No state, no I/O."""
