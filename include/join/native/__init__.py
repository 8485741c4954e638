"""The compiled way of a bucket's work, where `make setup` could build it and `LYREBIRD_NATIVE` is not `0`.

Equal to `algorithm.batch.apply`, byte by byte; rows that it cannot read go to the Python way, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from include.join.algorithm.batch import BucketChanges, finished
from include.join.algorithm.row import PlainTouch, Row, Touch
from include.join.algorithm.shape import JoinShape
from include.record.native import why_not
from include.state.reading import BucketRows

if TYPE_CHECKING:
    from include.join.native._join import Projector

__all__ = ["WHY_NOT", "compiled"]

WHY_NOT: Final = why_not("include.join.native._join", form=3)
"""Why it is not there; empty when it is."""


def compiled(
    shape: JoinShape, projector: Callable[[int, bytes, bytes], Projector | None]
) -> Callable[[Iterable[Touch | PlainTouch], BucketRows], BucketChanges] | None:
    """`apply` for this shape, whose outputs are parts behind one prefix; None for the Python way.

    `projector`: of an input, a key and a row as the state has it, what reads such rows; None for the Python way.
    """
    if WHY_NOT:
        return None
    from include.join.native._join import Program, apply

    inputs = range(len(shape.optional))
    program = Program(
        shape.slots or tuple(inputs),
        shape.optional,
        shape.distinct,
        tuple(tuple(shape.probe_order(each)) for each in inputs),
        shape.key_fields,
        shape.key.prefix,
        shape.value.prefix,
        shape.max_product,
        projector,
        lambda place, key, kept: shape.projection.entry(place, key, Row.from_bytes(kept)),
        shape.projection.absent,
        finished,
    )

    def compiled_apply(touches: Iterable[Touch | PlainTouch], state: BucketRows) -> Any:
        return apply(touches, state.get, state.scan, program)

    return compiled_apply
