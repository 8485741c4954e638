"""The log of one Delta table, through delta-rs: what it holds, and commits that only its one writer can make.

A commit is for the version behind the one that was read. Another writer's commit in between fails it (delta-rs would
put it behind that one; here it never tries again), as only one process may know where the table stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from include.clock import Clock
from include.errors import Fenced, Terminal, Transient
from include.lake.tables.columns import BUCKET
from include.lake.tables.standing import LABEL, GenerationState, Label, label_read, label_text
from include.lake.tables.trust import trusting
from include.settings.connections import StoreSettings
from include.settings.secret import revealed

__all__ = ["DataFile", "DeltaLog", "TableState", "storage_options"]

_COUNTS: Final = "lyrebird.counts"
_CHECKPOINT_EVERY: Final = 20
_READ_AT_ONCE: Final = 8
_CA: Final = "ca_file"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table: its path below the table's folder, its bucket, bytes and rows; `stats` of a new one."""

    path: str
    bucket: int
    size_bytes: int
    rows: int
    stats: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True)
class TableState:
    """A version of a table. `schema`: Arrow's, without the bucket column; `files` by bucket."""

    version: int
    schema: Any
    standing: GenerationState
    files: Mapping[int, tuple[DataFile, ...]]


class DeltaLog:
    """One table's log; not for use from several threads."""

    def __init__(self, uri: str, options: Mapping[str, str], clock: Clock) -> None:
        """`uri` is the table's folder; `options` as `storage_options` gives them, empty for a local folder."""
        self.uri = uri
        self._options, self._clock = {name: each for name, each in options.items() if name != _CA}, clock
        self._ca_file = options.get(_CA, "")
        self._table: Any = None
        self._store: Any = None

    def state(self, sources: Iterable[str] = ()) -> TableState | None:
        """The newest version, None when there is no table yet; `sources`: whose labels it may have.

        Raises `Transient` when the store does not answer, `Terminal` for a table that Lyrebird did not make.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            if self._table is None:
                with trusting(self._ca_file):
                    self._table = DeltaTable(self.uri, storage_options=self._options)
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self._away(error) from error
        return self._read(tuple(sources))

    def create(self, schema: Any, standing: GenerationState, *, days: float) -> TableState:
        """Make the table, empty; `days`: for how long its versions are kept. Raises `Fenced` when there is one."""
        import pyarrow.lib as pa
        from deltalake import CommitProperties, DeltaTable
        from deltalake.exceptions import CommitFailedError, DeltaError

        whole = pa.schema([*schema, pa.field(BUCKET, pa.int32())])
        kept = f"interval {max(1, round(days * 24))} hours"
        try:
            with trusting(self._ca_file):
                self._table = DeltaTable.create(
                    self.uri,
                    whole,
                    mode="error",
                    partition_by=[BUCKET],
                    configuration={
                        "delta.logRetentionDuration": kept,
                        "delta.deletedFileRetentionDuration": kept,
                        "delta.checkpointInterval": str(_CHECKPOINT_EVERY),
                        **standing.properties(),
                    },
                    storage_options=self._options,
                    commit_properties=CommitProperties(
                        max_commit_retries=0, app_transactions=_transactions(standing.transactions())
                    ),
                    raise_if_key_not_exists=False,
                )
        except CommitFailedError as error:
            raise self._fenced(error) from error
        except (DeltaError, OSError) as error:
            if "already exists" in str(error):
                raise self._fenced(error) from error
            raise self._away(error) from error
        return self._read(tuple(standing.resolved))

    def add_columns(self, schema: Any, sources: Iterable[str] = ()) -> TableState:
        """Add what `schema` has and the table lacks, as a version with the same rows; `sources` as in `state`."""
        import pyarrow.lib as pa
        from deltalake import CommitProperties
        from deltalake import Schema as DeltaSchema
        from deltalake.exceptions import CommitFailedError, DeltaError

        table = self._opened()
        there = {each.name for each in table.schema().fields}
        new = [each for each in DeltaSchema.from_arrow(pa.schema(list(schema))).fields if each.name not in there]
        try:
            table.alter.add_columns(new, commit_properties=CommitProperties(max_commit_retries=0))
        except CommitFailedError as error:
            raise self._fenced(error) from error
        except (DeltaError, OSError) as error:
            raise self._away(error) from error
        return self._read(tuple(sources))

    def commit(
        self,
        state: TableState,
        standing: GenerationState,
        *,
        added: Sequence[DataFile] = (),
        removed: Sequence[DataFile] = (),
        label: Label | None = None,
        counts: Mapping[str, int] | None = None,
        schema: Any = None,
    ) -> TableState:
        """Write the version behind `state`.

        Args:
            state: what was read last.
            standing: where the table stands then.
            added: files that are in the store already.
            removed: files that are no longer the table's; the store keeps them for earlier versions.
            label: what the version is complete to; None for one that is complete to nothing.
            counts: what became of records, for people.
            schema: of a table all of whose files are replaced, by `added`, with columns of other types.

        Raises:
            Fenced: somebody else wrote that version.
            Transient: the store does not answer; whether the version is written is not known then.
        """
        import pyarrow.lib as pa
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError, DeltaError
        from deltalake.transaction import AddAction, RemoveAction

        table, now_ms = self._opened(), self._clock.now_us() // 1000
        before = state.standing.transactions()
        moved = {name: at for name, at in standing.transactions().items() if before.get(name) != at}
        wanted = table.schema() if schema is None else pa.schema([*schema, pa.field(BUCKET, pa.int32())])
        actions: list[Any] = [
            AddAction(file.path, file.size_bytes, {BUCKET: str(file.bucket)}, now_ms, True, file.stats)
            for file in added
        ]
        if schema is None:
            actions += [
                RemoveAction(file.path, True, now_ms, file.size_bytes, {BUCKET: str(file.bucket)}) for file in removed
            ]
        said = {LABEL: label_text(label or {}), _COUNTS: dict(counts or {})}
        try:
            table.create_write_transaction(
                actions,
                "append" if schema is None else "overwrite",
                wanted,
                [BUCKET],
                commit_properties=CommitProperties(
                    custom_metadata=said, max_commit_retries=0, app_transactions=_transactions(moved)
                ),
            )
            table.update_incremental()
        except CommitFailedError as error:
            raise self._fenced(error) from error
        except (DeltaError, OSError) as error:
            raise self._away(error) from error
        found = self._read(tuple(standing.resolved))
        if found.version != state.version + 1:
            raise self._fenced(f"version {found.version} follows {state.version}")
        return found

    def labels(self, newest: int | None = None) -> Iterator[tuple[int, int, Label]]:
        """(version, time of its commit in ms, label) of the `newest` versions, newest first, as far as the log goes.

        Read as they are asked for, a few at once. Each is read from the commit of its own number: delta-rs' `history`
        lists commits that are newer than the version it counts down from, and so gives them the numbers of older ones.
        """
        last = self._opened().version()
        first = 0 if newest is None else max(0, last - newest + 1)
        with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
            for high in range(last, first - 1, -_READ_AT_ONCE):
                versions = range(high, max(first, high - _READ_AT_ONCE + 1) - 1, -1)
                for version, found in zip(versions, threads.map(self._said, versions), strict=True):
                    if found is None:
                        return
                    yield version, *found

    def label(self, version: int) -> tuple[int, Label]:
        """Time of its commit in ms and label of a version; (0, none) where its commit is not kept any more."""
        return self._said(version) or (0, {})

    def at(self, version: int) -> TableState:
        """An earlier version; raises `Terminal` for one whose log is gone."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        other = DeltaLog(self.uri, {**self._options, _CA: self._ca_file}, self._clock)
        try:
            with trusting(self._ca_file):
                other._table = DeltaTable(self.uri, version=version, storage_options=self._options)
        except (DeltaError, OSError) as error:
            raise Terminal(
                "this version of the table is not kept any more",
                table=self.uri,
                version=version,
                cause=str(error)[:200],
                fix="`lyrebird table status` names the oldest that is.",
            ) from error
        return other._read(())

    def expire(self, hours: float, *, dry_run: bool) -> list[str]:
        """Remove files that no version of the last `hours` has, and the log of earlier versions; their paths."""
        from deltalake.exceptions import DeltaError

        table = self._opened()
        try:
            gone: list[str] = table.vacuum(
                retention_hours=max(0, round(hours)), dry_run=dry_run, enforce_retention_duration=False, full=True
            )
            if not dry_run:
                table.update_incremental()
                table.create_checkpoint()
                table.cleanup_metadata()
        except (DeltaError, OSError) as error:
            raise self._away(error) from error
        return gone

    def _said(self, version: int) -> tuple[int, Label] | None:
        try:
            lines = self._files().open_input_file(f"_delta_log/{version:020d}.json").read().splitlines()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._away(error) from error
        said: dict[str, Any] = next((each["commitInfo"] for each in map(json.loads, lines) if "commitInfo" in each), {})
        return said.get("timestamp", 0), label_read(said.get(LABEL))

    def _files(self) -> Any:
        from deltalake.fs import DeltaStorageHandler

        if self._store is None:
            with trusting(self._ca_file):
                self._store = DeltaStorageHandler(self.uri, self._options)
        return self._store

    def _opened(self) -> Any:
        if self._table is None:
            raise Terminal("the table's log was not read", table=self.uri)
        return self._table

    def _read(self, sources: Sequence[str]) -> TableState:
        import pyarrow.lib as pa

        table = self._table
        schema = pa.schema(table.schema())
        standing = GenerationState.read(
            table.metadata().configuration, table.transaction_version, dict.fromkeys(sources)
        )
        files: dict[int, list[DataFile]] = {}
        for said in pa.table(table.get_add_actions()).to_pylist():
            bucket = int(said["partition"][BUCKET])
            files.setdefault(bucket, []).append(
                DataFile(said["path"], bucket, said["size_bytes"], said["num_records"] or 0)
            )
        return TableState(
            table.version(),
            pa.schema([_plain(each) for each in schema if each.name != BUCKET]),
            standing,
            {bucket: tuple(sorted(each, key=lambda file: file.path)) for bucket, each in files.items()},
        )

    def _fenced(self, cause: object) -> Fenced:
        return Fenced(
            "another process wrote a version of the table",
            table=self.uri,
            cause=str(cause)[:300],
            fix="Only its application may write it. Does a second one run?",
        )

    def _away(self, error: Exception) -> Transient:
        return Transient(
            "the table's log cannot be read or written", system="store", table=self.uri, cause=str(error)[:300]
        )


def storage_options(store: StoreSettings) -> dict[str, str]:
    """What `DeltaLog` is told of the store, and delta-rs but for the authority's file.

    Keys come from botocore's chain where the deployment names none.

    Raises `Terminal` where no keys are found.
    """
    import botocore.session

    keys = store.access_key, revealed(store.secret_key), revealed(store.session_token)
    if store.access_key is None:
        found = botocore.session.Session(profile=store.profile).get_credentials()
        if found is None:
            raise Terminal("no credentials for the store are found", fix="See section `store` in the manual.")
        frozen = found.get_frozen_credentials()
        keys = frozen.access_key, frozen.secret_key, frozen.token
    options = {
        "aws_endpoint": store.endpoint,
        "aws_region": store.region,
        "aws_access_key_id": keys[0],
        "aws_secret_access_key": keys[1],
        "aws_session_token": keys[2],
        "aws_virtual_hosted_style_request": "true" if store.addressing == "virtual" else "false",
        "aws_allow_http": "true" if store.endpoint.startswith("http:") else "false",
        "aws_conditional_put": "etag",
        "aws_server_side_encryption": store.encryption,
        "aws_sse_kms_key_id": store.kms_key,
        _CA: store.ca_file,
    }
    return {name: str(value) for name, value in options.items() if value is not None}


def _transactions(versions: Mapping[str, int]) -> list[Any]:
    from deltalake import Transaction

    return [Transaction(name, version) for name, version in versions.items()]


def _plain(field_: Any) -> Any:
    """The field without what readers of one kind prefer: text and bytes as Parquet's files here have them."""
    import pyarrow.lib as pa
    import pyarrow.types as types

    def plain(type_: Any) -> Any:
        if types.is_string_view(type_) or types.is_large_string(type_):
            return pa.string()
        if types.is_binary_view(type_) or types.is_large_binary(type_):
            return pa.binary()
        if types.is_struct(type_):
            return pa.struct([pa.field(each.name, plain(each.type), True) for each in type_])
        if types.is_map(type_):
            return pa.map_(plain(type_.key_type), plain(type_.item_type))
        if types.is_list(type_) or types.is_large_list(type_):
            return pa.list_(pa.field("item", plain(type_.value_type), True))
        return type_

    return pa.field(field_.name, plain(field_.type), True)
