"""One stack on this machine: its folders, ports, passwords and the LYREBIRD_* names that lead to it."""

from __future__ import annotations

import base64
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from include.errors import SettingsError, Terminal
from include.local import accounts, owners, ports
from include.local.accounts import Account
from include.local.owners import Owner
from include.local.process import Launch
from include.local.records import Records, write_private
from include.local.services import SERVICES, Service
from include.settings.environment import PROJECT_ROOT, cache_folder

__all__ = ["Site", "read_env", "secret_key", "usable_cache"]

_SECRETS: dict[str, int] = {
    "LYREBIRD_MYSQL_ROOT_PASSWORD": 18,
    "LYREBIRD_MYSQL_PASSWORD": 18,
    "LYREBIRD_SHOP_PASSWORD": 18,
    "LYREBIRD_KAFKA_PASSWORD": 18,
    "LYREBIRD_S3_SECRET_KEY": 24,
    "LYREBIRD_ELASTICSEARCH_PASSWORD": 18,
    "LYREBIRD_REGISTRY_PASSWORD": 18,
    "LYREBIRD_MAIL_PASSWORD": 12,
    "LYREBIRD_AIRFLOW_PASSWORD": 12,
}


def usable_cache(account: Account | None) -> Path:
    """The cache folder of the settings; SettingsError when `account` cannot pass to it."""
    folder = cache_folder()
    if not accounts.reaches(folder, account):
        name = account.name if account else ""
        raise SettingsError(
            f"LYREBIRD_CACHE={folder} cannot be read by the account {name!r}",
            fix="Choose a folder that every user may enter, such as /var/cache/lyrebird.",
        )
    return folder


def read_env(path: Path) -> dict[str, str]:
    """KEY=VALUE lines of an env file; empty when there is none."""
    if not path.exists():
        return {}
    pairs = (line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, value in pairs if not name.startswith("#")}


@dataclass(frozen=True)
class Site:
    """Where everything of a stack is. Made by `Site.open`, which creates what is missing."""

    state: Path
    cache: Path
    project: Path
    account: Account | None
    ports: dict[str, int]
    secrets: dict[str, str] = field(repr=False)
    data_root: Path
    kafka_login: bool = True
    """False: Kafka lets everybody in."""

    @classmethod
    def open(
        cls,
        state: Path,
        *,
        free_ports: bool,
        keep_ports: bool,
        starting: Iterable[Service] = (),
        kafka_login: bool = True,
    ) -> Site:
        """Read the stack of `state`, or lay it out.

        `free_ports`: any free ports, chosen once, but that those of `starting` are chosen again where somebody took
        them meanwhile. `keep_ports`: servers run, so the ports stay as they are.
        Raises SettingsError for a wrong port or cache, Terminal when no account can be made.
        """
        try:
            state.mkdir(parents=True, exist_ok=True)
            account = accounts.unprivileged()
            accounts.close(state, account)
        except OSError as error:
            raise Terminal(
                f"the state folder {state} cannot be made, or closed to others: {error.strerror}",
                fix="Set LYREBIRD_STATE to a folder of your own.",
            ) from error
        records = Records(state)
        kept = records.stack()
        numbers: dict[str, int] = dict(kept.get("ports", {}))
        if not (keep_ports or (free_ports and numbers)):
            numbers = {}
        for port in (port for row in starting for port in row.ports if free_ports and port.name in numbers):
            if not ports.is_free(numbers[port.name]):
                del numbers[port.name]
        for row in SERVICES:
            for port in row.ports:
                if port.name in numbers:
                    continue
                numbers[port.name] = (
                    ports.free_port(set(numbers.values())) if free_ports else ports.chosen(port, dict(os.environ))
                )
        site = cls(
            state=state,
            cache=usable_cache(account),
            project=PROJECT_ROOT,
            account=account,
            ports=numbers,
            secrets=_secrets(read_env(state / "env")),
            data_root=owners.data_root(state, account, kept.get("data_root")),
            kafka_login=kafka_login,
        )
        stack = {"ports": numbers, "data_root": str(site.data_root)}
        if kept != stack:
            records.write_stack(stack)
        return site

    def folder(self, row: Service) -> Path:
        """Configuration and data of a service."""
        return self.owner(row).folder

    def owner(self, row: Service) -> Owner:
        """Who runs a service; raises Terminal where nobody can."""
        return owners.owner(row, self.account, self.state, self.data_root)

    def give(self, row: Service) -> Path:
        """Make the folder of a service, with its `tmp`, and give it with all in it to its owner; the folder."""
        owner = self.owner(row)
        accounts.give(owner.folder, None)
        (owner.folder / "tmp").mkdir(exist_ok=True)
        accounts.give(owner.folder, owner.account)
        return owner.folder

    def install(self, row: Service) -> Path:
        """Unpacked files of a service in the cache."""
        return self.cache / f"{row.program}-{row.version}"

    def log(self, process: str) -> Path:
        """The log file of a process."""
        return Records(self.state).log(process)

    def launch(self, row: Service, argv: Iterable[str], env: dict[str, str]) -> Launch:
        """How to start the one process of `row`, in its folder and as its owner."""
        owner = self.owner(row)
        return Launch(
            name=row.processes[0],
            argv=tuple(argv),
            env=env,
            cwd=str(owner.folder),
            log=str(self.log(row.processes[0])),
            uid=owner.account.uid if owner.account else None,
            gid=owner.account.gid if owner.account else None,
        )

    def server_environment(self, row: Service, **more: str) -> dict[str, str]:
        """A small environment for a server that is not Python: nothing of the caller's settings gets in."""
        kept = {k: os.environ[k] for k in ("PATH", "LANG", "TZ") if k in os.environ}
        # The caller's own may be closed to the server's account.
        temporary = str(self.folder(row) / "tmp")
        return {"LANG": "C.UTF-8", **kept, "HOME": str(self.state), "TMPDIR": temporary, **more}

    def python_environment(self) -> dict[str, str]:
        """The caller's environment with this stack's names, for Python processes of the project."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "LYREBIRD_RUN"}
        }
        scripts = str(Path(sys.executable).parent)
        kept["PATH"] = os.pathsep.join([scripts, kept.get("PATH", "/usr/bin:/bin")])
        kept["PYTHONPATH"] = str(self.project)
        kept["LYREBIRD_CACHE"] = str(self.cache)
        return {**kept, **self.environment(SERVICES)}

    def environment(self, rows: tuple[Service, ...]) -> dict[str, str]:
        """The LYREBIRD_* names that lead to these services."""
        address = {name: f"127.0.0.1:{number}" for name, number in self.ports.items()}
        secret = self.secrets
        names: dict[str, dict[str, str]] = {
            "mariadb": {
                "LYREBIRD_MYSQL_HOST": "127.0.0.1",
                "LYREBIRD_MYSQL_PORT": str(self.ports["mariadb"]),
                "LYREBIRD_MYSQL_USER": "capture",
                "LYREBIRD_MYSQL_PASSWORD": secret["LYREBIRD_MYSQL_PASSWORD"],
                "LYREBIRD_SHOP_USER": "shop",
                "LYREBIRD_SHOP_PASSWORD": secret["LYREBIRD_SHOP_PASSWORD"],
                "LYREBIRD_MYSQL_ROOT_PASSWORD": secret["LYREBIRD_MYSQL_ROOT_PASSWORD"],
            },
            # The accounts are those of the shop's server.
            "mariadb-ads": {
                "LYREBIRD_ADS_HOST": "127.0.0.1",
                "LYREBIRD_ADS_PORT": str(self.ports["mariadb_ads"]),
            },
            "kafka": {
                "LYREBIRD_KAFKA": address["kafka"],
                "LYREBIRD_KAFKA_USER": "lyrebird" if self.kafka_login else "",
                "LYREBIRD_KAFKA_PASSWORD": secret["LYREBIRD_KAFKA_PASSWORD"] if self.kafka_login else "",
            },
            "registry": {
                "LYREBIRD_REGISTRY": f"http://{address['registry']}/apis/ccompat/v7",
                "LYREBIRD_REGISTRY_USER": "lyrebird",
                "LYREBIRD_REGISTRY_PASSWORD": secret["LYREBIRD_REGISTRY_PASSWORD"],
            },
            "s3": {
                "LYREBIRD_S3": f"http://{address['s3']}",
                "LYREBIRD_S3_ACCESS_KEY": "lyrebird",
                "LYREBIRD_S3_SECRET_KEY": secret["LYREBIRD_S3_SECRET_KEY"],
            },
            "elasticsearch": {
                "LYREBIRD_ELASTICSEARCH": f"http://{address['elasticsearch']}",
                "LYREBIRD_ELASTICSEARCH_USER": "lyrebird",
                "LYREBIRD_ELASTICSEARCH_PASSWORD": secret["LYREBIRD_ELASTICSEARCH_PASSWORD"],
            },
            "mail": {
                "LYREBIRD_SMTP": address["smtp"],
                "LYREBIRD_MAIL": f"http://{address['mail']}",
                "LYREBIRD_MAIL_USER": "lyrebird",
                "LYREBIRD_MAIL_PASSWORD": secret["LYREBIRD_MAIL_PASSWORD"],
            },
            "airflow": {
                "LYREBIRD_AIRFLOW": f"http://{address['airflow']}",
                "LYREBIRD_AIRFLOW_USER": "admin",
                "LYREBIRD_AIRFLOW_PASSWORD": secret["LYREBIRD_AIRFLOW_PASSWORD"],
            },
        }
        result = {"LYREBIRD_STATE": str(self.state)}
        for row in rows:
            result.update(names[row.name])
        return result

    def write_env(self, rows: tuple[Service, ...], **more: str) -> None:
        """Put the names of `rows`, and more, into `<state>/env`, beside what it already holds (ports may be new)."""
        merged = {**read_env(self.state / "env"), **self.secrets, **self.environment(rows), **more}
        write_private(
            self.state / "env",
            "".join(f"{name}={value}\n" for name, value in sorted(merged.items())),
        )


def secret_key(site: Site, name: str) -> str:
    """A random key of this stack that is no LYREBIRD_* name: made once, kept in `<state>/keys/<name>`."""
    path = site.state / "keys" / name
    if not path.exists():
        write_private(path, base64.urlsafe_b64encode(os.urandom(32)).decode())
    return path.read_text()


def _secrets(kept: Mapping[str, str]) -> dict[str, str]:
    return {name: kept.get(name) or secrets.token_urlsafe(size) for name, size in _SECRETS.items()}
