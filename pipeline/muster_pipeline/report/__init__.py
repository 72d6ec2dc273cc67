"""From gold tables to a report for people and programs: one HTML page, Prometheus text, one JSON document per group.

Mechanism: each section is a small value built in one pass over one table, in batches, so that memory grows with the
number of groups and not of rows. `report.limits` bounds how much of a fleet is shown; the page says how much is not
shown. It needs no network; its one script searches its own groups. What it does not do: derive anything that the tables
do not say. A value that is unknown in a table is "unknown" on the page.
"""
