"""The script of clients_test.go by redis-py. Arguments: host, port, protocol; the key is in the environment."""

import os
import sys

import redis

host, port, protocol = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
c = redis.Redis(host=host, port=port, username="cache", password=os.environ["KEY"], protocol=protocol, decode_responses=True)


def want(what, expected, got):
    if got != expected:
        sys.exit(f"{what}: {got!r}, want {expected!r}")


events = c.pubsub(ignore_subscribe_messages=True)
events.subscribe("__keyevent@0__:expired")
want("SET", True, c.set("greeting", "hello", ex=60))
want("GET", "hello", c.get("greeting"))
want("TTL", 60, c.ttl("greeting"))
want("GET of an absent key", None, c.get("absent"))
want("INCRBY", 7, c.incrby("n", 7))
want("SETNX", False, c.setnx("n", 1))
with c.pipeline(transaction=False) as p:
    want("MGET", [True, ["1", "2"]], p.mset({"a": 1, "b": 2}).mget("a", "b").execute())
with c.pipeline() as p:
    p.watch("n")
    c.set("n", 100)
    p.multi()
    p.incr("n")
    try:
        sys.exit(f"EXEC after a change by another: {p.execute()!r}")
    except redis.WatchError:
        pass
want("SCAN", ["a", "b", "greeting", "n"], sorted(c.scan_iter(match="*", count=2)))
try:
    sys.exit(f"HSET: {c.hset('h', 'f', 'v')!r}")
except redis.ResponseError as e:
    want("HSET", True, "unknown command" in str(e))
c.set("short", "v", px=50)
for _ in range(100):
    message = events.get_message(timeout=0.1)
    if message:
        want("event", "short", message["data"])
        break
else:
    sys.exit("no event of an expired key")
print("done")
