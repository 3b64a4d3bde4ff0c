import hashlib
import json

WANT = {
    "name": "shop",
    "server": {"host": "shop.example.org", "port": 8000, "tls": {"on": True, "cert": "dev.pem"}},
    "tags": ["c"],
    "limits": {"rate": 10},
    "cache": {"size": 64},
}
KEPT = {"base.json": "f8de73107c76e1f048bef07623291138ca56d0d9ecbbbf060381b2bd32e79bc3", "override.json": "456a0e38b5a47650678a199e27ae19b4b42dd6f9416f3a4c38b16bb0ed2593a1"}

got = json.dumps(json.load(open("app.json")), sort_keys=True)
same = all(hashlib.sha256(open(n, "rb").read()).hexdigest() == d for n, d in KEPT.items())
print(int(same and got == json.dumps(WANT, sort_keys=True)))
