"""`muster demo`: real flight data, real clients, a killed coordinator."""
