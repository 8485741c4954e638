"""The outbox and its sender, over a server that the tests play."""

from __future__ import annotations

import email
import email.policy
import itertools
import json
import smtplib
from collections.abc import Sequence
from pathlib import Path

import pytest

from include.clock import ManualClock, SystemClock
from include.outbox import folder as folder_module
from include.outbox.folder import Mail, Outbox
from include.outbox.sender import send_all

NOW_US = 1_700_000_000_000_000


class Crash(BaseException):
    """The process ends here."""


class Post:
    """A mail server: what it has taken, and what it says next in place of that."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.connects: list[BaseException] = []
        self.answers: list[BaseException | None] = []
        self.refuses: dict[str, BaseException] = {}

    def connect(self) -> Post:
        if self.connects:
            raise self.connects.pop(0)
        return self

    def sendmail(self, from_addr: str, to_addrs: Sequence[str], msg: bytes, /) -> None:
        answer = self.answers.pop(0) if self.answers else self.refuses.get(to_addrs[0])
        if answer is not None:
            raise answer
        self.taken.append((to_addrs[0], msg))

    def quit(self) -> None:
        pass

    @property
    def receivers(self) -> list[str]:
        return [receiver for receiver, _ in self.taken]


def mail(identity: str = "INCIDENT a aside:1", *to: str) -> Mail:
    return Mail(identity, "lyrebird@x", to or ("a@x",), "Größe\r\nBcc: b@x", "<p>ö \ud800</p>")


@pytest.fixture
def box(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "outbox")


@pytest.fixture
def post() -> Post:
    return Post()


def names(box: Outbox, folder: str) -> list[str]:
    return sorted(path.name for path in (box.path / folder).glob("*.json"))


def test_a_mail_goes_out_once_to_each_receiver_however_often_it_is_told(box: Outbox, post: Post) -> None:
    assert box.put(mail("i", "a@x", "b@x"), NOW_US) == 2
    assert box.put(mail("i", "a@x", "b@x", "c@x"), NOW_US + 1) == 1
    assert send_all(box, post.connect, ManualClock())
    assert box.put(mail("i", "a@x", "b@x"), NOW_US + 2) == 0
    assert send_all(box, post.connect, ManualClock())
    assert sorted(post.receivers) == ["a@x", "b@x", "c@x"]
    assert (box.waiting(), len(names(box, "sent"))) == ([], 3)


def test_it_is_a_mail_that_any_reader_takes(box: Outbox, post: Post) -> None:
    box.put(mail(), NOW_US)
    send_all(box, post.connect, ManualClock())
    sent = email.message_from_bytes(post.taken[0][1], policy=email.policy.default)
    assert (sent["Subject"], sent["From"], sent["To"], sent["Bcc"]) == ("Größe Bcc: b@x", "lyrebird@x", "a@x", None)
    assert sent["Message-ID"].endswith("@x>")
    body = sent.get_body(("html",))
    assert body is not None
    assert body.get_content().strip() == "<p>ö ?</p>"


def test_a_long_mail_has_lines_as_servers_count_them(box: Outbox, post: Post) -> None:
    box.put(Mail("i", "lyrebird@x", ("a@x",), "a command " * 200, f"<pre>{'spark-submit ' * 500}</pre>"), NOW_US)
    send_all(box, post.connect, ManualClock())
    message = post.taken[0][1]
    assert message.count(b"\n") == message.count(b"\r\n")
    assert max(map(len, message.split(b"\r\n"))) <= 998


def test_files_are_for_the_owners_eyes(box: Outbox) -> None:
    box.put(mail(), NOW_US)
    waiting = box.path / "waiting"
    modes = [path.stat().st_mode & 0o777 for path in (box.path, waiting, *waiting.iterdir())]
    assert modes == [0o700, 0o700, 0o600]


@pytest.mark.parametrize(
    "away", [ConnectionRefusedError("no"), TimeoutError("timed out"), smtplib.SMTPConnectError(554, b"no")]
)
def test_a_server_that_is_away_for_an_hour_costs_nothing_and_doubles_none(
    box: Outbox, post: Post, away: Exception
) -> None:
    for number in range(30):
        box.put(mail(f"i{number}"), NOW_US)
    clock, tries, ends = ManualClock(), 0, 0
    while clock.monotonic_s() < 3600:
        post.connects = [away] * 100
        # It ends now and then, so that whoever starts it anew brings today's settings.
        assert not send_all(box, post.connect, clock)
        tries, ends = tries + 100 - len(post.connects), ends + 1
    assert 8 <= ends <= 12
    assert tries < 150
    assert box.state().waiting == 30
    assert box.state().problem
    post.connects = []
    assert send_all(box, post.connect, clock)
    assert len(post.taken) == 30
    assert (box.state().waiting, box.state().problem) == (0, "")


def test_waits_between_tries_grow_up_to_a_minute(box: Outbox, post: Post) -> None:
    box.put(mail(), NOW_US)
    clock, at_s = ManualClock(), list[float]()

    def connect() -> Post:
        at_s.append(clock.monotonic_s())
        raise ConnectionRefusedError

    send_all(box, connect, clock)
    waits = [round(later - sooner) for sooner, later in itertools.pairwise(at_s)]
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(waits[7:]) == {60}


def test_what_the_server_refuses_for_good_is_set_aside_with_its_answer_and_the_rest_goes_out(
    box: Outbox, post: Post
) -> None:
    post.refuses = {
        "gone@x": smtplib.SMTPRecipientsRefused({"gone@x": (550, b"no such user")}),
        "spam@x": smtplib.SMTPDataError(554, b"spam"),
    }
    box.put(mail("i", "gone@x", "spam@x", "a@x"), NOW_US)
    assert send_all(box, post.connect, ManualClock())
    assert post.receivers == ["a@x"]
    answers = {json.loads((box.path / "refused" / name).read_text())["answer"] for name in names(box, "refused")}
    assert answers == {"550 no such user", "554 spam"}
    assert (box.state().waiting, box.state().refused) == (0, 2)
    # Mended by a person: moved back, it goes out.
    post.refuses = {}
    for name in names(box, "refused"):
        (box.path / "refused" / name).rename(box.path / "waiting" / name)
    assert send_all(box, post.connect, ManualClock())
    assert sorted(post.receivers) == ["a@x", "gone@x", "spam@x"]


def test_one_that_the_server_puts_off_holds_up_no_other(box: Outbox, post: Post) -> None:
    box.put(mail("first", "grey@x"), NOW_US)
    box.put(mail("second", "a@x"), NOW_US)
    grey = smtplib.SMTPRecipientsRefused({"grey@x": (451, b"later")})
    post.answers = [grey, None, grey]
    assert send_all(box, post.connect, ManualClock())
    assert post.receivers == ["a@x", "grey@x"]


def test_one_at_which_the_server_hangs_holds_up_no_other(box: Outbox, post: Post) -> None:
    box.put(mail("first", "poison@x"), NOW_US)
    box.put(mail("second", "a@x"), NOW_US)
    post.refuses = {"poison@x": TimeoutError("timed out")}
    assert not send_all(box, post.connect, ManualClock())
    assert post.receivers == ["a@x"]
    assert box.state().waiting == 1


@pytest.mark.parametrize("at", ["connects", "answers"])
def test_a_sender_whose_login_is_refused_ends_so_that_the_next_one_has_todays(box: Outbox, post: Post, at: str) -> None:
    box.put(mail(), NOW_US)
    setattr(post, at, [smtplib.SMTPAuthenticationError(535, b"bad password")])
    clock = ManualClock()
    assert not send_all(box, post.connect, clock)
    assert clock.monotonic_s() == 0
    assert "535 bad password" in box.state().problem
    assert send_all(box, post.connect, clock)
    assert post.receivers == ["a@x"]


def test_a_file_that_is_no_mail_is_set_aside(box: Outbox, post: Post) -> None:
    box.put(mail(), NOW_US)
    (box.path / "waiting" / "half.json").write_text("{")
    (box.path / "waiting" / "other.json").write_text("{}")
    assert send_all(box, post.connect, ManualClock())
    assert names(box, "refused") == ["half.json", "other.json"]
    assert post.receivers == ["a@x"]


STEPS = ["no file", "temporary file", "waiting", "sent"]


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_after_each_step_neither_loses_nor_doubles(
    box: Outbox, post: Post, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who tells tells again until its call has returned; a sender is started again."""

    def crash(*_: object, **__: object) -> None:
        raise Crash

    def told_and_sent() -> None:
        box.put(mail(), NOW_US)
        send_all(box, post.connect, ManualClock())

    box.put(mail("another"), NOW_US)
    with monkeypatch.context() as broken:
        if step == "no file":
            broken.setattr("include.outbox.folder.json.dump", crash)
        if step == "temporary file":
            broken.setattr(Path, "replace", crash)
        if step == "waiting":
            broken.setattr(folder_module, "_sync", crash)
        if step == "sent":
            broken.setattr(Outbox, "tidy", crash)
        with pytest.raises(Crash):
            told_and_sent()
    told_and_sent()
    assert len(post.taken) == 2
    assert len({message for _, message in post.taken}) == 2


def test_a_crash_between_the_servers_word_and_the_note_of_it_sends_the_same_message_again(
    box: Outbox, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise Crash

    box.put(mail(), NOW_US)
    with monkeypatch.context() as broken:
        broken.setattr(Outbox, "sent", crash)
        with pytest.raises(Crash):
            send_all(box, post.connect, ManualClock())
    assert send_all(box, post.connect, ManualClock())
    first, second = (email.message_from_bytes(message)["Message-ID"] for _, message in post.taken)
    assert first == second


def test_what_is_told_again_in_the_moment_it_goes_out_is_not_sent_again(box: Outbox, post: Post) -> None:
    box.put(mail(), NOW_US)
    (name,) = box.waiting()
    copy = (box.path / "waiting" / name).read_bytes()
    assert send_all(box, post.connect, ManualClock())
    (box.path / "waiting" / name).write_bytes(copy)
    assert send_all(box, post.connect, ManualClock())
    assert len(post.taken) == 1


def test_a_full_disk_at_the_note_sends_nothing_twice(box: Outbox, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    box.put(mail(), NOW_US)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", full)
        assert send_all(box, post.connect, ManualClock())
    assert send_all(box, post.connect, ManualClock())
    assert len(post.taken) == 1


def test_a_thousand_that_were_sent_are_remembered(box: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_KEPT", 3)
    post = Post()
    for number in range(5):
        box.put(mail(f"i{number}"), NOW_US)
        send_all(box, post.connect, ManualClock())
    assert [name[:2] for name in names(box, "sent")] == ["i2", "i3", "i4"]


def test_there_is_one_sender(box: Outbox) -> None:
    box.put(mail(), NOW_US)
    clock = SystemClock()
    assert not box.has_sender()
    with box.alone(clock) as first:
        assert first
        assert box.has_sender()
        with box.alone(ManualClock()) as second:
            assert not second
    assert not box.has_sender()


def test_an_outbox_that_never_was_is_empty(box: Outbox) -> None:
    assert box.waiting() == []
    assert box.state() == folder_module.OutboxState()
    assert not box.end_sender(ManualClock(), within_s=1)
