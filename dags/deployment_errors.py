"""Makes no DAG: its import error says what is wrong in deployment files, also where other DAG files go on without it.

`streams.py` makes the DAG of each application that is declared well. An application that is not, or a file that cannot
be read at all, would else be missing without a word. Mend the file and line that the error names; Airflow then looks
again by itself.
"""

from __future__ import annotations

from include.errors import SettingsError
from include.settings.applications import Application
from include.settings.deployment import Deployment

_deployment = Deployment.load()
_, _entries = _deployment.readable("applications", Application)
_errors = dict.fromkeys([file.error for file in _deployment.broken] + _entries)
if _errors:
    raise SettingsError("; ".join(map(str, _errors)))
