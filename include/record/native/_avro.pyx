# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# distutils: language = c
"""Records' fields and keys' hashes in C; what it offers stands in `_avro.pyi`.

Believes no byte: each read is checked against the end of what there is. What it refuses it leaves to the Python way,
which says what is wrong.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

# Raised with each change of what it offers or takes.
FORM = 3

include "avro.pxi"
include "murmur2.pxi"
include "fields.pxi"
include "columns.pxi"


def murmur2(bytes data not None):
    return murmur2_of(<In> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
