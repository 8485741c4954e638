"""Long-running applications under Airflow: one owner, one lock, a lease, a graceful end.

How it fits together:

```
 task (operator.py) ──starts──► guardian.py ──starts──► the application (spark-submit, python -m include …)
        │ defers                    ▲  holds `lock`, writes run.json, exit.json        │ writes progress.json
        ▼                           │ SIGTERM; `lease` gone stale                      ▼
 trigger.py ──polls──► the run folder (run_folder.py) ◄─────────────────────────────────
```

What is decided stands in decisions.py and budget.py, free of Airflow and of files. `guardian.py`, `leash.py` and
`processes.py` know the standard library alone, so that no fault of the project's can stop them.
"""
