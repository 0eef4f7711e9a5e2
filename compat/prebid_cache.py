#!/usr/bin/env python3
"""Sends the same requests to Prebid Cache and to `[cache.puts]`, and shows every difference.

Both must be running: see README.md. Known differences are listed here, with their reasons; any other one
fails.
"""

import http.client
import json
import sys

LIMIT = 10_240
ONE = '{"type":"json","value":1}'
# Go prints the bytes of a value as numbers, sends a body back that it cannot read, takes names of members in
# any case, replaces half a surrogate pair, and repeats a uuid of the wrong length.
WORDS, NAMES, SURROGATES, REPEATED = "other words", "names in any case", "half a surrogate pair", "the uuid repeated"

PUTS: list[tuple[str, str | None]] = [
    ('{"puts":[]}', None),
    ("{}", None),
    ('{"puts":null}', None),
    ('{"puts":[{"type":"xml","value":"<a/>"}]}', None),
    ('{"puts":[{"type":"xml","value":""}]}', None),
    ('{"puts":[{"type":"xml","value":"\\u003ca\\u003e\\ud83d\\ude00"}]}', None),
    ('{"puts":[{"type":"json","value": {"b" : [1, 2.50]} }]}', None),
    ('{"puts":[{"type":"json","value":null}]}', None),
    ('{"puts":[{"type":"json","value":"a","ttlseconds":-1}]}', None),
    ('{"puts":[{"type":"json","value":1,"ttlseconds":null}]}', None),
    ('{"puts":[{"type":"yaml","value":"a"}]}', None),
    ('{"puts":[{"type":"XML","value":"a"}]}', None),
    ('{"puts":[{"value":"a"}]}', None),
    ('{"puts":[{"type":"json"}]}', None),
    (f'{{"puts":[{ONE},{{"type":"yaml","value":1}}]}}', None),
    (f'{{"puts":[{",".join([ONE] * 10)}]}}', None),
    (f'{{"puts":[{",".join([ONE] * 11)}]}}', None),
    (f'{{"puts":[{{"type":"xml","value":"{"x" * (LIMIT - 3)}"}}]}}', None),
    (f'{{"puts":[{{"type":"xml","value":"{"x" * (LIMIT - 2)}"}}]}}', None),
    (f'{{"puts":[{ONE},{{"type":"xml","value":"{"x" * LIMIT}"}}]}}', None),
    ('{"puts":[{"type":"xml","value":{"a":1}}]}', WORDS),
    ('{"puts":[{"type":"xml","value":null}]}', WORDS),
    ('{"puts":[{"type":"json","value":1,"ttlseconds":1.5}]}', WORDS),
    ('{"puts":{}}', WORDS),
    ("{", WORDS),
    ("[]", WORDS),
    ("", WORDS),
    ('{"PUTS":[{"type":"json","value":1}]}', NAMES),
    ('{"puts":[{"type":"xml","value":"\\ud800"}]}', SURROGATES),
]
GETS: list[tuple[str, str | None]] = [
    ("/cache", None),
    ("/cache?uuid=", None),
    ("/cache?x=1", None),
    ("/cache?uuid=01234567-0123-4123-8123-0123456789ab", None),
    ("/cache?uuid=1", REPEATED),
]


def ask(address: str, method: str, path: str, body: str | None = None) -> tuple[int, str, str]:
    """Status, media type and body."""
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request(method, path, body)
    answer = connection.getresponse()
    media_type = (answer.getheader("content-type") or "").partition(";")[0]
    return answer.status, media_type, answer.read().decode().strip()


def put(address: str, body: str) -> list[tuple[int, str, str]]:
    """The answer without its UUIDs, and what each of them gets."""
    status, media_type, text = ask(address, "POST", "/cache", body)
    if status != 200:
        return [(status, media_type, text)]
    uuids = [each["uuid"] for each in json.loads(text)["responses"]]
    found = [ask(address, "GET", f"/cache?uuid={uuid}") for uuid in uuids]
    return [(status, media_type, f"{len(uuids)} values"), *found]


def main() -> int:
    """0 if nothing differs but what is known to."""
    if len(sys.argv) != 3:
        print("usage: prebid_cache.py HOST:PORT-OF-PREBID-CACHE HOST:PORT-OF-VICKREY", file=sys.stderr)
        return 64
    theirs, ours = sys.argv[1:]
    wrong = known = 0
    for request, reason in [*PUTS, *GETS]:
        is_get = request.startswith("/")
        answers = [
            [ask(address, "GET", request)] if is_get else put(address, request) for address in (theirs, ours)
        ]
        is_same = answers[0] == answers[1]
        is_known = reason is not None and (reason in (NAMES, SURROGATES) or answers[0][0][0] == answers[1][0][0])
        known += not is_same and is_known
        if not is_same and not is_known or is_same and reason:
            wrong += 1
            print(f"{request[:100]}\n  theirs {str(answers[0])[:200]}\n  ours   {str(answers[1])[:200]}")
    print(f"{len(PUTS) + len(GETS)} requests: {known} differ as they are known to, {wrong} otherwise")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
