"""The parts of the cluster, set up by the files of deploy/cluster as an operator would set them up."""

from __future__ import annotations

import base64
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psycopg

from tests.services import find_program
from torture.cluster.machines import NETWORK, Machines, Program, wait_until

FILES = Path(__file__).resolve().parents[2] / "deploy" / "cluster"
HOSTS = ("host1", "host2", "host3")
JOBS = ("jobs1", "jobs2")
PORT = 8080


class Cluster:
    def __init__(self, machines: Machines, settings: dict[str, str]) -> None:
        self.machines = machines
        self.directory = machines.directory
        self._password = secrets.token_hex(12)
        self._settings = settings
        self.primary = "db1"
        self.database: dict[str, Program] = {}
        self.hosts: dict[str, Program] = {}
        self.jobs: dict[str, Program] = {}

    # --- Setting up

    def start(self) -> None:
        self._start_primary()
        self._start_standby("db2", "db1")
        wait_until("the standby was synchronous", lambda: self._standby_is("sync_state", "sync"))
        self.cache = self._cache()
        self._write("userlist.txt", f'"kontobahn" "{self._password}"\n')
        self._write("pgbouncer.ini", self.file("pgbouncer.ini"))
        self.pool = self.machines.run(
            "pool", [_program("pgbouncer"), str(self.directory / "pgbouncer.ini")], account="postgres"
        )
        wait_until("PgBouncer answered", self._pool_answers)
        self.environment = self._environment()
        for name in (*HOSTS, *JOBS):
            (self.directory / name).mkdir()
        self._kontobahn("host1", "migrate")
        self.facts: dict[str, Any] = json.loads(self._kontobahn("host1", "demo", "--json"))
        self._kontobahn("host1", "credits", "grant", "1000000", "-o", self.facts["organization_id"])
        for name in HOSTS:
            command = ["serve", "--host", self.machines.address(name), "--port", str(PORT), "--no-jobs"]
            self.hosts[name] = self._start(name, *command)
        for name in JOBS:
            self.jobs[name] = self._start(name, "jobs")
        self._write("unavailable.http", self.file("unavailable.http"))
        self._write("haproxy.cfg", self.file("haproxy.cfg"))
        self.balancer = self.machines.run(
            "balancer", [_program("haproxy"), "-db", "-f", str(self.directory / "haproxy.cfg")]
        )
        wait_until("every host was ready", lambda: all(self.is_ready(name) for name in (*HOSTS, "balancer")))

    def file(self, name: str) -> str:
        """A file of deploy/cluster, with our addresses and paths where they differ."""
        text = (FILES / name).read_text("utf-8").replace(NETWORK, self.machines.prefix)
        for folder in ("/etc/haproxy", "/etc/pgbouncer"):
            text = text.replace(folder, str(self.directory))
        return text

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.write_text(text, "utf-8")
        path.chmod(0o644)

    def _environment(self) -> dict[str, str]:
        lines = self.file("kontobahn.env").splitlines()
        environment = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
        url = environment["KONTOBAHN_DATABASE_URL"].replace("PASSWORD", self._password)
        key = base64.b64encode(secrets.token_bytes(32)).decode()
        return environment | {
            "KONTOBAHN_DATABASE_URL": url,
            "KONTOBAHN_SECRET_KEY": key,
            "KONTOBAHN_BASE_URL": f"http://{self.machines.address('balancer')}:{PORT}",
            "KONTOBAHN_TRUSTED_PROXIES": f"{self.machines.source('balancer')}/32",
        } | self._settings  # fmt: skip

    def _start(self, name: str, *arguments: str) -> Program:
        command = [sys.executable, "-m", "kontobahn", *arguments, "--data", str(self.directory / name)]
        return self.machines.run(name, command, environment=self.environment)

    def _kontobahn(self, machine: str, *arguments: str) -> str:
        command = [sys.executable, "-m", "kontobahn", *arguments, "--data", str(self.directory / machine)]
        return self._run(machine, command, environment={**os.environ, **self.environment})

    def doctor(self) -> str:
        """The faults that `kontobahn doctor` found."""
        command = [sys.executable, "-m", "kontobahn", "doctor", "--json", "--data", str(self.directory / "host1")]
        done = subprocess.run(
            self.machines.prepared("host1", command), env={**os.environ, **self.environment}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return "; ".join(
            f"{item['name']}: {item['text']}" for item in json.loads(done.stdout) if item["state"] == "failed"
        )

    def _run(
        self, machine: str, command: list[str], account: str = "", environment: dict[str, str] | None = None
    ) -> str:
        done = subprocess.run(
            self.machines.prepared(machine, command, account), cwd=self.directory, env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} on {machine}: {done.stdout}{done.stderr}")
        return done.stdout

    # --- PostgreSQL

    def _start_primary(self) -> None:
        data = self._data("db1")
        initdb = [find_program("initdb"), f"--pgdata={data}", "--username=postgres", "--auth=trust", "--encoding=UTF8"]
        self._run("db1", [*initdb, "--locale=C", "--no-instructions"], "postgres")
        self._configure("db1")
        self._start_database("db1")
        with self.connect("db1", "postgres") as connection:
            # Until the standby is there, no commit may wait for it.
            connection.execute("SET synchronous_commit = local")
            for role in ("kontobahn LOGIN", "replicator LOGIN REPLICATION"):
                connection.execute(f"CREATE ROLE {role} PASSWORD '{self._password}'")
            connection.execute("CREATE DATABASE kontobahn OWNER kontobahn")

    def _start_standby(self, machine: str, primary: str) -> None:
        data = self._data(machine)
        source = f"host={self.machines.address(primary)} port=5432 user=replicator password={self._password}"
        copy = [find_program("pg_basebackup"), f"--pgdata={data}", f"--dbname={source} application_name={machine}"]
        options = ["--write-recovery-conf", "--create-slot", f"--slot={machine}", "--checkpoint=fast"]
        self._run(machine, [*copy, *options], "postgres")
        self._configure(machine)
        self._start_database(machine)
        wait_until("the standby was streaming", lambda: self._standby_is("state", "streaming"))

    def repair_old_primary(self) -> float:
        """Makes it the standby of the new one, as docs/several-machines.md says. Returns the seconds it took."""
        began = time.monotonic()
        self.machines.plug_in("db1")
        shutil.rmtree(self.directory / "db1")
        self._start_standby("db1", "db2")
        with self.connect("db2", "postgres") as connection:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")
        wait_until("the standby was synchronous", lambda: self._standby_is("sync_state", "sync"))
        return time.monotonic() - began

    def _data(self, machine: str) -> Path:
        data = self.directory / machine / "postgres"
        data.parent.mkdir()
        if os.geteuid() == 0:
            entry = pwd.getpwnam("postgres")
            os.chown(data.parent, entry.pw_uid, entry.pw_gid)
        return data

    def _configure(self, machine: str) -> None:
        data = self.directory / machine / "postgres"
        # Besides what the files of deploy/cluster say: we administer from outside.
        access = f"host all postgres {self.machines.source('outside')}/32 trust\n" + self.file("pg_hba.conf")
        if not self.machines.namespaces:
            access = access.replace(f"{self.machines.prefix}0/24", "127.0.0.1/32")
        (data / "pg_hba.conf").write_text(access, "utf-8")
        own = (
            f"\nlisten_addresses = '{self.machines.address(machine)}'\nunix_socket_directories = ''\ntimezone = 'UTC'\n"
        )
        (data / "postgresql.conf").write_text(self.file("postgresql.conf") + own, "utf-8")

    def _start_database(self, machine: str) -> None:
        command = [find_program("postgres"), "-D", str(self.directory / machine / "postgres")]
        self.database[machine] = self.machines.run(machine, command, account="postgres")
        wait_until(f"{machine} answered", lambda: self._answers(machine))

    def _answers(self, machine: str) -> bool:
        if not self.database[machine].running:
            raise RuntimeError(self.database[machine].tail())
        try:
            self.connect(machine, "postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _standby_is(self, column: str, value: str) -> bool:
        with self.connect("", "postgres") as connection:
            rows = connection.execute(
                "SELECT state, sync_state FROM pg_stat_replication WHERE application_name ~ '^db'"
            ).fetchall()
        return any(row[("state", "sync_state").index(column)] == value for row in rows)

    def connect(self, machine: str = "", database: str = "kontobahn") -> psycopg.Connection[Any]:
        """Past PgBouncer, as an administrator."""
        return psycopg.connect(
            host=self.machines.address(machine or self.primary), port=5432, user="postgres", dbname=database, autocommit=True,
            connect_timeout=5,
        )  # fmt: skip

    def promote(self) -> None:
        """As docs/several-machines.md says."""
        with self.connect("db2", "postgres") as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("SELECT pg_promote()")
        self.primary = "db2"
        old, new = (f"host={self.machines.address(name)} " for name in ("db1", "db2"))
        self._write("pgbouncer.ini", self.file("pgbouncer.ini").replace(old, new))
        self.restart_pool()

    # --- The others

    def _cache(self) -> Program:
        command = [_program("redis-server"), "--bind", self.machines.address("cache"), "--port", "6379", "--save", ""]
        return self.machines.run("cache", [*command, "--appendonly", "no", "--protected-mode", "no"])

    def restart_pool(self) -> None:
        self.pool.stop()
        self.pool.start()

    def _pool_answers(self) -> bool:
        if not self.pool.running:
            raise RuntimeError(self.pool.tail())
        return "listening on" in self.pool.tail()

    def is_ready(self, machine: str) -> bool:
        connection = HTTPConnection(self.machines.address(machine), PORT, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def _program(name: str) -> str:
    beside = Path("/usr/sbin") / name
    return str(beside) if beside.exists() else find_program(name)
