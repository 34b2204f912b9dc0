"""The service on several machines under load, while its parts are lost one after another.

Three hosts behind HAProxy, PgBouncer, PostgreSQL with a synchronous standby, Redis, and two processes for jobs, set up by the files
of deploy/cluster. Killed or restarted in turn: a host, a process for jobs, PgBouncer, Redis, the primary, whose standby takes over.

    python -m torture.cluster --seconds 6 --seed 1
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from torture.cluster.machines import Machines, enter_namespaces

PACKAGES = Path(__file__).resolve().parents[2] / "scripts" / "system-packages.sh"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6, help="of load before and after each fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loopback", action="store_true", help="without network namespaces")
    parser.add_argument("--keep", metavar="DIRECTORY", help="copy logs and configuration there")
    chosen = parser.parse_args()
    subprocess.run([str(PACKAGES), "cluster"], check=True)
    namespaces = not chosen.loopback and enter_namespaces(sys.argv[1:])
    from torture.cluster.trial import run

    # Not where TMPDIR says: PostgreSQL runs under another account.
    with tempfile.TemporaryDirectory(prefix="kontobahn-cluster-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        machines = Machines(Path(folder), namespaces=namespaces)
        try:
            return run(machines, seconds=chosen.seconds, seed=chosen.seed)
        finally:
            machines.close()
            if chosen.keep:
                subprocess.run(["cp", "-r", folder, chosen.keep], check=True)


if __name__ == "__main__":
    sys.exit(main())
