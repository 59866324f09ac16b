"""The metrics that the companion's programs tell of themselves, as their source names them."""
import re

CALLS = r'\bfamilies\s*\.(amounts|counter|endings|gauge|histogram)\(\s*"(\w+)"'


def families(path, least):
    """Names of metrics with their kinds. Of fewer than `least` one was missed: CALLS has to follow a change of the source."""
    with open(path) as file:
        found = {name if kind in ("amounts", "gauge", "histogram") else f"{name}_total": kind for kind, name in re.findall(CALLS, file.read())}
    assert len(found) >= least, f"{path}: found only {len(found)} metrics"
    return found


def collector():
    return families("crates/companion/src/metrics.rs", 9)


def ledger():
    return families("crates/quota-server/src/metrics.rs", 9)
