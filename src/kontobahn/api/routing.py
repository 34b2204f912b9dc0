"""From a path to the endpoints that are declared for it."""

from __future__ import annotations

from kontobahn.api.declare import Endpoint


class Routes:
    """Finds the endpoints of a path: a dictionary for plain paths, one walk over the segments for those with parameters."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        self.endpoints = endpoints
        self._plain: dict[str, dict[str, Endpoint]] = {}
        self._with_parameters: dict[int, list[tuple[tuple[str, ...], dict[str, Endpoint]]]] = {}
        for endpoint in endpoints:
            methods = self._plain_methods(endpoint) if "{" not in endpoint.path else self._parameter_methods(endpoint)
            if endpoint.method in methods:
                raise ValueError(f"{endpoint.name} is declared twice")
            methods[endpoint.method] = endpoint

    def find(self, path: str) -> tuple[dict[str, Endpoint], dict[str, str]] | None:
        """Returns the endpoints by method, and the values of the path's parameters."""
        methods = self._plain.get(path)
        if methods is not None:
            return methods, {}
        segments = path.split("/")
        for pattern, methods in self._with_parameters.get(len(segments), ()):
            values = _match(pattern, segments)
            if values is not None:
                return methods, values
        return None

    def _plain_methods(self, endpoint: Endpoint) -> dict[str, Endpoint]:
        return self._plain.setdefault(endpoint.path, {})

    def _parameter_methods(self, endpoint: Endpoint) -> dict[str, Endpoint]:
        pattern = tuple(endpoint.path.split("/"))
        candidates = self._with_parameters.setdefault(len(pattern), [])
        for known, methods in candidates:
            if known == pattern:
                return methods
        candidates.append((pattern, {}))
        return candidates[-1][1]


def _match(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    values = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            if not given:
                return None
            values[expected[1:-1]] = given
        elif expected != given:
            return None
    return values
