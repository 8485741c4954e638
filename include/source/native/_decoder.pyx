# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# distutils: language = c
"""Row images → Avro bytes, in C; what it offers stands in `_decoder.pyi`.

Takes the bytes of a binlog event as they come, so it believes none of them: each read is checked against the end of the
event, each write against the room that was reserved for it. What is not as it should be it does not judge: it hands the
event over to the Python decoders by returning None, and they say what is wrong, and where.
"""

include "bytes.pxi"
include "op.pxi"
include "number.pxi"
include "temporal.pxi"
include "text.pxi"
include "json.pxi"
include "images.pxi"
include "fixed.pxi"
include "program.pxi"
include "outputs.pxi"
include "../../record/native/murmur2.pxi"
include "records.pxi"
include "stamp.pxi"
include "textrows.pxi"
include "run.pxi"
include "run_outputs.pxi"
