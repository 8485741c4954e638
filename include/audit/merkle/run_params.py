"""Parameters of the DAG audit_tables and of `lyrebird audit tables`."""

from __future__ import annotations

from typing import Annotated

from include.audit.merkle.definition import Against
from include.settings.run import NULL, ONCE, RunParams, knob
from include.source.run_params import DateColumn, FirstDay, TableName, UntilDay, Where, rows_condition

__all__ = ["TableAuditRun"]


class TableAuditRun(RunParams):
    """One run over tables of a source, or of all sources that are audited."""

    source: str = knob("Whose tables; none means all that `table_audits` names.", "", among="source")
    tables: Annotated[tuple[TableName, ...], ONCE] = knob(
        "Captured tables, as `orders` or `shop.orders`; none means all that the audit declares.",
        (),
        option="--table",
        schema=NULL,
    )
    against: Against | None = knob("The copy; none means the lake's table where there is one, else the topic.", None)
    where: Where = ""
    date_column: DateColumn = ""
    date_from: FirstDay = ""
    date_until: UntilDay = ""
    repair: bool = knob("Let the running capture read again what is wrong, and compare again.", False)

    @property
    def condition(self) -> str:
        """For the rows that are compared; raises as `rows_condition`."""
        return rows_condition(self.tables, self.where, self.date_column, self.date_from, self.date_until)
