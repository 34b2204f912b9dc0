"""The requests that are running: on which connection, and how many of one network."""

from __future__ import annotations

from kontobahn.addresses import block_of

Peer = tuple[str, int]


class RunningRequests:
    def __init__(self, per_network: int) -> None:
        self._per_network = per_network
        self._networks: dict[str, int] = {}
        self._peers: set[Peer] = set()

    def __contains__(self, peer: object) -> bool:
        return peer in self._peers

    def enter(self, peer: Peer | None, ip: str) -> bool:
        """Counts a request; False, without counting it, if its network has too many running."""
        network = block_of(ip)
        running = self._networks.get(network, 0)
        if running >= self._per_network:
            return False
        self._networks[network] = running + 1
        if peer is not None:
            self._peers.add(peer)
        return True

    def leave(self, peer: Peer | None, ip: str) -> None:
        network = block_of(ip)
        running = self._networks[network] - 1
        if running:
            self._networks[network] = running
        else:
            del self._networks[network]
        if peer is not None:
            self._peers.discard(peer)
