python3 - <<'PY'
import json

def merge(base, over):
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result

base, over = (json.load(open(name)) for name in ("base.json", "override.json"))
json.dump(merge(base, over), open("app.json", "w"), indent=2)
PY
