# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# distutils: language = c
"""A bucket's share of a batch in C; what it offers stands in `_join.pyi`, what it does in `join.algorithm.batch`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

# Raised with each change of what it offers or takes.
FORM = 3

include "../../record/native/avro.pxi"
include "../../record/native/murmur2.pxi"
include "../../record/native/fields.pxi"
include "cuts.pxi"
include "gather.pxi"
include "sides.pxi"
include "apply.pxi"
