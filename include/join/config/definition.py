"""The file of a join: its inputs in order, its output.

```yaml
join:
  - schema_id: 12345
    join_keys: [biz_id]
    exclude_fields: [content, review_id]
  - schema_id: 23143
    join_keys: [business_id]
    aliases: [{from: business_id, to: biz_id}]
    exclude_fields: [address, name]
output:
  namespace: joinery_example
  source: business_review_join
  doc: Join of business table and review table
  pkey: [business_id]
```
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import AliasChoices, Field, model_validator

from include.settings.deployment import Deployment, Strict

__all__ = ["Alias", "InputDefinition", "JoinFile", "JoinOutputDefinition", "JoinType", "read_join"]

JoinType = Literal["inner", "left"]
"""inner: an output has a row of this input. left: it has one, or nulls where there is none."""

_MOST_INPUTS = 100


class Alias(Strict):
    """Another name for a field."""

    source: str = Field(alias="from", description="the field's name in the input")
    to: str = Field(description="its name in the output")


class InputDefinition(Strict):
    """One keyed changelog."""

    schema_id: int | None = Field(default=None, ge=0, description="id of a version of its topic's value schema")
    topic: str | None = Field(default=None, description="instead of `schema_id`: the topic")
    join_keys: list[str] = Field(min_length=1, description="fields that equal those of the other inputs, in order")
    aliases: list[Alias] = Field(default_factory=list, description="fields that have another name in the output")
    exclude_fields: list[str] = Field(default_factory=list, description="fields that the output does not show")
    include_fields: list[str] | None = Field(default=None, description="instead: the fields that it shows")
    type: JoinType = Field(default="inner", description="whether an output needs a row of this input")
    where: dict[str, list[str | int | bool | None]] = Field(
        default_factory=dict, description="field -> values: other rows take no part"
    )

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.schema_id is None) == (self.topic is None):
            raise ValueError("give either `schema_id` or `topic`")
        if self.include_fields is not None and self.exclude_fields:
            raise ValueError("give either `include_fields` or `exclude_fields`")
        for name, names in (
            ("join_keys", self.join_keys),
            ("aliases", [alias.source for alias in self.aliases]),
            ("exclude_fields", self.exclude_fields),
            ("include_fields", self.include_fields or []),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f"`{name}` names a field twice")
        return self

    @property
    def label(self) -> str:
        """What errors call it."""
        return self.topic if self.topic is not None else f"schema {self.schema_id}"

    def renamed(self, field: str) -> str:
        """The field's name in the output."""
        return next((alias.to for alias in self.aliases if alias.source == field), field)


class JoinOutputDefinition(Strict):
    """The joined topic, `<namespace>.<source>`."""

    namespace: str = Field(min_length=1, description="first part of the topic's name")
    source: str = Field(min_length=1, description="second part of the topic's name")
    doc: str = Field(default="", validation_alias=AliasChoices("doc", "Doc"), description="what a row of it is")
    pkey: list[str] | None = Field(
        default=None, min_length=1, description="fields of its key, instead of all inputs' keys in order"
    )

    @property
    def topic(self) -> str:
        """The joined topic's name, without a tenant."""
        return f"{self.namespace}.{self.source}"


class JoinFile(Strict):
    """A join."""

    join: list[InputDefinition] = Field(min_length=2, max_length=_MOST_INPUTS, description="the inputs, in order")
    output: JoinOutputDefinition
    buckets: int = Field(default=16, ge=1, le=4096, description="parts of the state; fixed by the first start")
    max_product_per_change: int = Field(
        default=100_000, ge=1, description="a record that changes more outputs than this is held and told of"
    )
    records_per_batch: int = Field(default=500_000, ge=1, description="most records that one batch reads")

    @model_validator(mode="after")
    def _in_step(self) -> Self:
        if self.join[0].type == "left":
            raise ValueError("the first input is what others are joined to: it has no `type: left`")
        counts = {len(each.join_keys) for each in self.join}
        if len(counts) > 1:
            raise ValueError("each input has as many `join_keys` as the others: they are compared in order")
        return self


def read_join(file: Path) -> tuple[Deployment, JoinFile]:
    """The file with the places of its values, and what it says; raises `SettingsError` with file, line, path."""
    loaded = Deployment.of_file(file)
    return loaded, loaded.whole(JoinFile)
