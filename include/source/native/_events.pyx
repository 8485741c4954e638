# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# distutils: language = c
"""Raw events → runs of plain source transactions, in C; what it offers stands in `_events.pyi`.

Believes no byte: each read is checked against the end of what there is. What is not plain it leaves alone, from the
first event of its group on, and never says what is wrong with it: that is the work of the Python path.
"""

include "bytes.pxi"
include "crc.pxi"
include "raw_event.pxi"
include "slots.pxi"
include "run.pxi"
include "plain.pxi"
include "gtid.pxi"
