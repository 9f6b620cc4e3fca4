# Sends the requests of standard input, a JSON list, with urllib or requests, and prints what the client saw of each.
import json, sys

def urllib_send(ask, body):
    import urllib.error, urllib.request
    q = urllib.request.Request(ask["url"], data=body, method=ask["method"], headers=ask["headers"])
    try:
        with urllib.request.urlopen(q) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()

def requests_send(ask, body):
    import requests
    s = requests.Session()
    s.trust_env = False
    r = s.request(ask["method"], ask["url"], data=body, headers=ask["headers"])
    return r.status_code, r.text

send = {"urllib": urllib_send, "requests": requests_send}[sys.argv[1]]
seen = []
for ask in json.load(sys.stdin):
    try:
        status, body = send(ask, bytes(ask["length"]))
    except Exception as e:
        status, body = 0, repr(e)
    seen.append({"status": status, "body": body})
json.dump(seen, sys.stdout)
