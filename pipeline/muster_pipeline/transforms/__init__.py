"""Pure functions from decoded records to silver and gold: Arrow and numpy in, Arrow out; one log partition at a time.

All records of a group are in one partition of the offsets log, which is totally ordered by log offset. So everything
about a group is a fold over that partition. Each fold is fed chunk by chunk and keeps only what the next chunk needs
(the boundary state). Invariant, asserted by tests: the result does not depend on where the chunks are cut. Nothing here
reads a clock, a disk or a network, and nothing depends on Spark.
"""
