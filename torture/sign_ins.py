"""Guesses at passwords from many addresses at once. Others must be answered meanwhile, and the owner must get in.

python -m torture.sign_ins --addresses 80 --rounds 5
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from torture.others import Bystander, Target, call, target

HOME = "127.0.0.8"


def sign_in(running: Target, source: str, email: str, password: str) -> int:
    body = json.dumps({"email": email, "password": password}).encode()
    return call(running, "POST", "/v2/auth/sessions", body, source=source)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--addresses", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with target() as running:
        email, password = running.facts["user"]["email"], running.facts["user"]["password"]
        holds = sign_in(running, HOME, email, password) == 201
        addresses = [f"127.0.1.{number + 1}" for number in range(options.addresses)]
        for name, whose in (("one account", email), ("nobody's account", "nobody@muster.example")):
            with Bystander(running) as others, ThreadPoolExecutor(options.addresses) as guesses:
                made = [
                    guesses.submit(sign_in, running, address, whose, f"guess {number}")
                    for number in range(options.rounds)
                    for address in addresses
                ]
                statuses = Counter(guess.result() for guess in made)
            holds &= others.verdict(f"guesses at {name} {dict(statuses)}")
            holds &= set(statuses) <= {401, 429, 503}
        inside = sign_in(running, HOME, email, password)
        print(f"the owner at a usual address: {inside}")
        holds &= inside == 201
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
