# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# distutils: language = c
"""Avro → canonical JSON in C; what it offers stands in `_avro_json.pyi`.

Believes no byte: each read is checked against the end of what there is. What it does not take it leaves to the Python
way, which reads the same in its own manner or says what is wrong.
"""

# Raised with each change of what it offers or takes.
FORM = 2

include "../../native/avro.pxi"
include "out.pxi"
include "scalars.pxi"
include "writer.pxi"
include "key.pxi"
include "change.pxi"
include "blake2.pxi"
# The lines of a bulk request are written by the same C classes, so they are of this unit.
include "lines.pxi"
