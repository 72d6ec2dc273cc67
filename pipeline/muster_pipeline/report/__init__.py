"""From gold tables to what people and programs read: one HTML page, Prometheus text, one JSON a group.

Mechanism: each section is a small value built by one pass over one table, in batches, so that memory grows with the
number of groups and not of rows; what is shown of a fleet is bounded by `report.limits` and says how much is not shown.
The page needs no network and no script to be read. What it does not do: decide anything that the tables do not already
say; unknown stays unknown all the way to the page.
"""
