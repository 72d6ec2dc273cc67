"""One handler file per family of Kafka requests: decoded request in, answer through a callback, no asyncio."""
