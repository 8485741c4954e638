"""What errors of a store or a log mean to an operator."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from include.errors import BackPressure, Fenced, LyrebirdError, Terminal, Transient
from include.lake.incidents.diagnosis import Trouble, diagnose, system_of
from include.store.s3 import S3Store


def refused(code: str, status: int = 403) -> LyrebirdError:
    """What the real store makes of an answer of the server."""
    store = S3Store("http://127.0.0.1:9", "lake", "a", "secret-key", timeout_s=1)
    try:
        with Stubber(store._patient) as stub:
            stub.add_client_error("list_objects_v2", code, "message", status)
            with pytest.raises(LyrebirdError) as raised:
                list(store.list("raw/"))
    finally:
        store.close()
    assert isinstance(raised.value.__cause__, ClientError)
    return raised.value


@pytest.mark.parametrize(
    ("code", "status", "trouble", "fix"),
    [
        ("InvalidAccessKeyId", 403, "wrong credentials", "access_key and secret_key"),
        ("SignatureDoesNotMatch", 403, "wrong credentials", "bucket lake at http://127.0.0.1:9"),
        ("AccessDenied", 403, "no rights", "Grant"),
        ("NoSuchBucket", 404, "bucket missing", "Make bucket lake"),
        ("RequestTimeTooSkewed", 403, "clock skew", "NTP"),
        ("SlowDown", 503, "store busy", "Nothing to do"),
        ("InternalError", 500, "store away", "lyrebird status"),
    ],
)
def test_an_answer_of_the_store_has_a_name_and_a_next_step(code: str, status: int, trouble: Trouble, fix: str) -> None:
    found = diagnose(refused(code, status))
    assert found.trouble == trouble
    assert fix in found.fix
    assert "secret-key" not in str(found)


def test_a_store_and_a_log_that_are_away_are_told_apart() -> None:
    assert diagnose(Transient("no answer", system="s3", bucket="lake")).trouble == "store away"
    assert diagnose(Transient("no answer", system="kafka")).trouble == "log away"
    assert diagnose(BackPressure("slow down", system="s3")).trouble == "store busy"


def test_what_is_none_of_these_keeps_its_own_advice() -> None:
    assert diagnose(Terminal("an object cannot be read", key="k", fix="Do this.")).fix == "Do this."
    assert diagnose(Terminal("an object cannot be read", key="k")).trouble == "damaged"


def test_each_system_that_a_group_rests_on_is_told_apart_and_what_is_none_of_theirs_too() -> None:
    assert diagnose(Transient("no answer", system="registry")).trouble == "registry away"
    assert diagnose(Transient("it is full", system="disk")).trouble == "disk full"
    assert diagnose(Transient("its host went", system="spark")).trouble == "tried again"
    assert diagnose(Terminal("no rights on it", system="kafka")).trouble == "log refuses"
    assert diagnose(Terminal("no such schema", system="registry")).trouble == "registry refuses"
    assert diagnose(refused("InvalidRequest", 400)).trouble == "store refuses"
    systems = [system_of(Transient("no answer", system=name)) for name in ("s3", "kafka", "registry", "disk", "spark")]
    assert systems == ["store", "log", "registry", "disk", None]
    assert system_of(refused("AccessDenied")) == "store"
    assert system_of(Terminal("an object cannot be read", key="k")) is None
    assert system_of(Fenced("another one writes", system="kafka")) is None
