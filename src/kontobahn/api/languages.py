"""The languages of pages, and which of them a visitor would like to read."""

from __future__ import annotations

from typing import Literal, cast, get_args

Language = Literal["de", "en"]
LANGUAGES: dict[Language, str] = {"de": "Deutsch", "en": "English"}


def wished(*wishes: str | None) -> Language | None:
    """The first wish that is a language of ours."""
    return next((cast(Language, wish) for wish in wishes if wish in get_args(Language)), None)


def accepted(header: str) -> Language | None:
    """The language of ours that a browser prefers."""
    weighed = []
    for position, part in enumerate(header.lower().split(",")[:20]):
        tag, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            continue
        weighed.append((-weight, position, tag.partition("-")[0].strip()))
    return wished(*(tag for weight, _, tag in sorted(weighed) if weight < 0))
