"""From bytes of an offsets log to Arrow tables: pure functions, one decoder for every source."""
