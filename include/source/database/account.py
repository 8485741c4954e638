"""Finds by SHOW GRANTS the privileges that the account lacks: for the binlog, for snapshots, for what it must see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from include.source.database.finding import ServerFinding
from include.source.database.server import AskServer, Server
from include.source.definition import SourceDefinition

__all__ = ["account"]

# As newer MariaDBs say it, and as all others do.
_BINLOG: Final = (
    ("REPLICATION SLAVE", "REPLICATION SLAVE", "REPLICATION REPLICA"),
    ("BINLOG MONITOR", "REPLICATION CLIENT"),
)
# Names stand without quotes where sql_quote_show_create is off.
_NAME: Final = r"(`(?:[^`]|``)*`|[^\s.`]+)"
_GRANT: Final = re.compile(rf"(GRANT|REVOKE) (.+?) ON (?:TABLE )?{_NAME}\.{_NAME} (?:TO|FROM) ", re.DOTALL)
_READS: Final = re.compile(r"SELECT|ALL PRIVILEGES")
# SELECT of some columns has them in parentheses.
_SELECT: Final = re.compile(r"(?:^|, )(?:SELECT(?! \()|ALL PRIVILEGES)(?:,|$)")
_WILD: Final = {"_": ".", "%": ".*"}


def account(ask: AskServer, server: Server, source: SourceDefinition) -> list[ServerFinding]:
    """Privileges that the account of `ask` lacks; those of roles count where they are active."""
    grants = [str(row[0]) for row in ask("SHOW GRANTS")]
    text = " ".join(grants).upper()
    unread = list(_unread(grants, server, source))
    if "ALL PRIVILEGES ON *.*" in text:
        return unread
    old = server.flavour == "mysql" or server.version < (10, 5, 2)
    return [
        *_blind(text, server),
        *(
            ServerFinding("account", f"lacks {spellings[old]}", f"GRANT {spellings[old]} ON *.* to it.")
            for spellings in _BINLOG
            if not any(spelling in text for spelling in spellings)
        ),
        *unread,
    ]


def _blind(grants: str, server: Server) -> Iterator[ServerFinding]:
    """What an account that may only read is not shown, and nobody tells it so."""
    if "REFERENCES" not in grants and (server.flavour == "mariadb" or server.version < (9, 6, 0)):
        problem = "lacks REFERENCES, which shows foreign keys: those that change rows by cascade are not noticed"
        yield ServerFinding("account", problem, "GRANT REFERENCES ON *.* to it.", "warn")
    if not re.search(r"\bTRIGGER\b", grants):
        problem = "lacks TRIGGER, which shows triggers: what one changes by a statement logged as text is not noticed"
        yield ServerFinding("account", problem, "GRANT TRIGGER ON *.* to it.", "warn")
    if server.flavour == "mysql" and server.version >= (8, 0, 0) and "XA_RECOVER_ADMIN" not in grants:
        problem = "lacks XA_RECOVER_ADMIN: a snapshot beside a prepared XA transaction stops the source at its commit"
        yield ServerFinding("account", problem, "GRANT XA_RECOVER_ADMIN ON *.* to it.", "warn")
    if server.flavour == "mysql" and not server.gtids and not re.search(r"\b(BACKUP_ADMIN|PROCESS)\b", grants):
        wanted = "BACKUP_ADMIN" if server.version >= (8, 0, 11) else "PROCESS"
        problem = f"lacks {wanted}: snapshots trust that what was logged is committed two seconds later"
        yield ServerFinding("account", problem, f"GRANT {wanted} ON *.* to it, or turn GTIDs on.", "warn")


def _unread(grants: list[str], server: Server, source: SourceDefinition) -> Iterator[ServerFinding]:
    """Captured databases that it may not read as a whole."""
    whole, parts, revoked = [], set(), set()
    for grant in grants:
        matched = _GRANT.match(grant)
        if matched is None or not _READS.search(matched[2]):
            continue
        database, table = _plain(matched[3], server), _plain(matched[4], server)
        if matched[1] == "REVOKE":
            revoked.add(database)
        elif table == "*" and _SELECT.search(matched[2]):
            whole.append(re.compile(".*" if database == "*" else _pattern(database), re.DOTALL))
        else:
            parts.add(database)
    for captured in source.databases:
        name = captured.lower() if server.lower_names else captured
        if name not in revoked and any(pattern.fullmatch(name) for pattern in whole):
            continue
        fix = f"GRANT SELECT ON {_quoted(captured)}.* to it."
        if name in parts:
            problem = (
                "may be read by the account only in part: other tables have no snapshots, and may not be seen at all"
            )
            yield ServerFinding(f"database {captured}", problem, fix, "warn")
        else:
            yield ServerFinding("account", f"lacks SELECT on database {captured}", fix)


def _plain(name: str, server: Server) -> str:
    name = name[1:-1].replace("``", "`") if name.startswith("`") else name
    return name.lower() if server.lower_names else name


def _pattern(database: str) -> str:
    r"""Of a grant's database: `_` and `%` stand for any character and any number of them, but for `\_` and `\%`."""
    parts = re.findall(r"\\[_%]|.", database, re.DOTALL)
    return "".join(_WILD.get(part) or re.escape(part[-1]) for part in parts)


def _quoted(name: str) -> str:
    escaped = re.sub(r"([_%])", r"\\\1", name.replace("`", "``"))
    return f"`{escaped}`"
