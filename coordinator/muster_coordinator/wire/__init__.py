"""Kafka frames and connections without sockets: splitting, heap budgets, order of answers, versions, codecs."""
