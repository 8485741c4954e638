"""Parameters of the DAG audit_documents and of `lyrebird audit documents`."""

from __future__ import annotations

from typing import Final

from include.settings.run import NamesOnce, RunParams, every, knob

__all__ = ["MOST_SHARES", "NIGHTLY_SHARE", "DocumentsAuditRun"]

NIGHTLY_SHARE: Final = 16
"""One of so many parts of the keys is looked at by a scheduled run that names no share."""


MOST_SHARES: Final = 9_999
"""So many parts of the keys there may be."""


class DocumentsAuditRun(RunParams):
    """One run over the documents of these topics."""

    topics: NamesOnce = every("entry of documents", "--topic", "documents", "Entries of `documents`; none means all.")
    share: int | None = knob(
        f"Only one of so many parts of the keys, another each day. Default: all; at night one of {NIGHTLY_SHARE}.",
        None,
        option="--sample",
        ge=1,
        le=MOST_SHARES,
    )
    repair: bool = knob("Let the running assembler write anew what is wrong, and look again.", False)
