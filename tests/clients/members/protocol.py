"""What the member programs of all clients have in common: one JSON object a line.

A member is started with its settings as one JSON argument, tells what happens to it on standard output and takes
commands on standard input. `tests.clients.member.Member` is the other side.

settings  bootstrap group topics|pattern assignors[] instance session_ms heartbeat_ms poll_ms auto_commit_ms (0 = off)
          sasl {mechanism, user, password}, where the listener asks who one is (SASL_SSL with ca, else SASL_PLAINTEXT);
          with OAUTHBEARER also endpoint, a URL that gives tokens for client credentials (of java by its properties)
          ca (file of the CA of a listener with TLS), of kafka-python and aiokafka by `encrypted`
          certificate, key (files): who one is to a listener with TLS that wants to know (of java by its properties)
          properties {name: text} of the client's own, jvm [options]: of java alone
          reset (earliest|latest|none) commit_on_revoke client_id assign [[topic, partition]...] (simple consumer)
events    {"e": "assigned"|"revoked"|"lost", "tps": [[t, p]...]}; assigned also has "generation" and "member"
          where the client tells them (not kafka-python)
          {"e": "records", "rs": [[t, p, offset, key, value]...]}
          {"e": "committed"|"commit_failed", "error": ...}
          {"e": "produced"} acknowledged, or {"e": "produce_failed", "error": ...}
          {"e": "fetched", "offsets": [[t, p, offset|null, metadata]...]}
          {"e": "error", "error": name, "fatal": bool}  {"e": "closed"}
          standard error has what the library logs, such as why a connection is not made
commands  {"c": "commit"} sync, of the position; {"c": "commit_async"};
          {"c": "commit_offsets", "offsets": [[t, p, o, metadata]...]}; {"c": "fetch", "tps": [...]};
          {"c": "seek", "t": .., "p": .., "o": ..}; {"c": "stop_polling"}; {"c": "poll_again"};
          {"c": "subscribe", "topics": [...]}; {"c": "close"}; {"c": "produce", "t": topic, "p": partition, "v": text}
          by a producer with the same login
"""

import json
import os
import queue
import ssl
import sys
import threading
import time
import urllib.request
from base64 import b64encode
from typing import Any


def settings() -> dict[str, Any]:
    return dict(json.loads(sys.argv[1]))


def login(config: dict[str, Any]) -> dict[str, Any]:
    """Settings of kafka-python and aiokafka, which have the same names."""
    who = config.get("sasl")
    if who is None:
        return {}
    shown: dict[str, Any] = {
        "security_protocol": "SASL_SSL" if "ca" in config else "SASL_PLAINTEXT",
        "sasl_mechanism": who["mechanism"],
    }
    if who["mechanism"] == "OAUTHBEARER":
        return shown
    return {
        **shown,
        "sasl_plain_username": who["user"],
        "sasl_plain_password": who["password"],
    }


def fresh_token(who: dict[str, Any]) -> tuple[str, float]:
    """From the endpoint, by client credentials (RFC 6749, 4.4); and when it ends, in seconds of the epoch."""
    credentials = b64encode(f"{who['user']}:{who['password']}".encode()).decode()
    request = urllib.request.Request(
        who["endpoint"], b"grant_type=client_credentials", {"Authorization": f"Basic {credentials}"}
    )
    asked_s = time.time()
    with urllib.request.urlopen(request, timeout=20) as answer:
        given = json.load(answer)
    return given["access_token"], asked_s + given["expires_in"]


def tell(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"e": event, **fields}) + "\n")
    sys.stdout.flush()


def encrypted(config: dict[str, Any]) -> dict[str, Any]:
    """Settings of kafka-python and aiokafka for a listener with TLS; chain and host name are verified."""
    if "ca" not in config:
        return {}
    context = ssl.create_default_context(cafile=config["ca"])
    if "certificate" in config:
        context.load_cert_chain(config["certificate"], config["key"])
    return {"ssl_context": context} if config.get("sasl") else {"security_protocol": "SSL", "ssl_context": context}


def python_options(config: dict[str, Any], client_id: str, assignors: dict[str, Any]) -> dict[str, Any]:
    """What kafka-python and aiokafka are made with: their options have the same names."""
    options: dict[str, Any] = {
        **login(config),
        "bootstrap_servers": config["bootstrap"].split(","),
        "group_id": config["group"],
        "client_id": config.get("client_id", client_id),
        **encrypted(config),
        "partition_assignment_strategy": [assignors[name] for name in config.get("assignors", ["range"])],
        "session_timeout_ms": config.get("session_ms", 6000),
        "heartbeat_interval_ms": config.get("heartbeat_ms", 500),
        "max_poll_interval_ms": config.get("poll_ms", 30000),
        "auto_offset_reset": config.get("reset", "earliest"),
        "enable_auto_commit": bool(config.get("auto_commit_ms")),
        "metadata_max_age_ms": 1000,
    }
    if config.get("auto_commit_ms"):
        options["auto_commit_interval_ms"] = config["auto_commit_ms"]
    if config.get("instance"):
        options["group_instance_id"] = config["instance"]
    return options


def commands() -> "queue.SimpleQueue[dict[str, Any]]":
    """Commands as they come; end of input ends the process, so that no member outlives its test."""
    box: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            box.put(json.loads(line))
        os._exit(3)

    threading.Thread(target=read, daemon=True, name="commands").start()
    return box


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
