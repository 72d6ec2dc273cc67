"""Kafka frames and connections without sockets: splitting, budgets, order of answers, versions, codecs."""
