import smtplib
from email.message import EmailMessage
from pathlib import Path

import pytest

from include.clock import ManualClock
from include.local.mail import MOST_MAILS, Mailbox, page, readable, serve
from include.local.ports import free_port
from include.local.recipes.probe import answers, get_json


def message(subject: str, text: str, html: str = "") -> bytes:
    mail = EmailMessage()
    mail["Subject"] = subject
    mail.set_content(text)
    if html:
        mail.add_alternative(html, subtype="html")
    return mail.as_bytes()


def test_mails_are_listed_oldest_first_with_their_parts(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000_000)
    box = Mailbox(tmp_path, clock)
    box.keep("a@x", ["b@x", "c@x"], message("Größe", "plain", "<p>rich</p>"))
    clock.advance(1)
    box.keep("a@x", ["b@x"], message("second", "text"))
    first, second = box.messages()
    assert (first["subject"], second["subject"]) == ("Größe", "second")
    assert (first["from"], first["to"], first["received"]) == ("a@x", ["b@x", "c@x"], "2023-11-14T22:13:20.000000Z")
    assert (first["text"].strip(), first["html"].strip()) == ("plain", "<p>rich</p>")
    assert second["html"] == ""


def test_mails_survive_a_restart(tmp_path: Path) -> None:
    Mailbox(tmp_path, ManualClock()).keep("a@x", ["b@x"], message("kept", ""))
    assert [mail["subject"] for mail in Mailbox(tmp_path, ManualClock()).messages()] == ["kept"]


def test_the_newest_mails_are_kept_and_the_oldest_goes(tmp_path: Path) -> None:
    clock = ManualClock()
    box = Mailbox(tmp_path, clock)
    for number in range(MOST_MAILS):
        (tmp_path / f"{number:016d}-old.eml").write_bytes(b'{"from": "a@x", "to": []}\n' + message(str(number), ""))
    clock.advance(3600)
    box.keep("a@x", ["b@x"], message("newest", ""))
    subjects = [mail["subject"] for mail in box.messages()]
    assert (len(subjects), subjects[0], subjects[-1]) == (MOST_MAILS, "1", "newest")


def test_a_mail_is_parsed_once_however_often_all_are_listed(tmp_path: Path) -> None:
    box = Mailbox(tmp_path, ManualClock())
    box.keep("a@x", ["b@x"], message("first", ""))
    (first,) = box.messages()
    box.keep("a@x", ["b@x"], message("second", ""))
    assert any(mail is first for mail in box.messages())
    for path in tmp_path.glob("*.eml"):
        path.unlink()
    assert box.messages() == []


def test_the_page_escapes_what_a_mail_says(tmp_path: Path) -> None:
    box = Mailbox(tmp_path, ManualClock())
    box.keep("a@x", ["b@x"], message("<script>alert(1)</script>", "<img src=x>"))
    shown = page(box.messages())
    assert "<script>" not in shown
    assert "<img" not in shown
    assert "&lt;script&gt;" in shown


def test_an_empty_box_says_so() -> None:
    assert "No mail yet" in page([])


def test_the_page_shows_the_words_of_a_mail_that_has_no_text() -> None:
    rich = '<p><b>it failed</b><br>try 1</p>\n<p><b>Log</b><br><a href="http://h/a?b=1&amp;c=2">http://h/a?b=1&amp;c=2</a></p>'
    assert readable(rich) == "it failed\ntry 1\n\nLog\nhttp://h/a?b=1&c=2"
    shown = page([{"received": "now", "subject": "s", "to": ["b@x"], "text": "", "html": rich}])
    assert 'Log\n<a href="http://h/a?b=1&amp;c=2">http://h/a?b=1&amp;c=2</a></pre>' in shown


def test_a_link_of_a_mail_ends_where_its_quotes_end() -> None:
    sly = 'see "http://h/x" onclick="alert(1)'
    shown = page([{"received": "now", "subject": "s", "to": ["b@x"], "text": sly, "html": ""}])
    assert '<a href="http://h/x">http://h/x</a>&quot; onclick=&quot;' in shown


def test_a_catcher_without_a_login_offers_none(tmp_path: Path) -> None:
    smtp, web = free_port(), free_port()
    stop = serve(Mailbox(tmp_path, ManualClock()), ("127.0.0.1", smtp), ("127.0.0.1", web))
    try:
        with smtplib.SMTP("127.0.0.1", smtp, timeout=10) as client:
            client.ehlo()
            assert not client.has_extn("auth")
            client.sendmail("a@x", ["b@x"], message("kept", ""))
        (mail,) = get_json(f"http://127.0.0.1:{web}/messages.json")
        assert mail["subject"] == "kept"
    finally:
        stop()


@pytest.mark.filterwarnings("ignore:Requiring AUTH")
def test_a_catcher_with_a_login_takes_and_shows_mails_by_it_alone(tmp_path: Path) -> None:
    smtp, web = free_port(), free_port()
    stop = serve(Mailbox(tmp_path, ManualClock()), ("127.0.0.1", smtp), ("127.0.0.1", web), ("user", "pass:word"))
    try:
        with smtplib.SMTP("127.0.0.1", smtp, timeout=10) as client:
            client.ehlo()
            assert client.has_extn("auth")
            with pytest.raises(smtplib.SMTPSenderRefused):
                client.sendmail("a@x", ["b@x"], message("unknown", ""))
            for user, password in (("user", "other"), ("other", "pass:word"), ("", "")):
                with pytest.raises(smtplib.SMTPAuthenticationError):
                    client.login(user, password)
        with smtplib.SMTP("127.0.0.1", smtp, timeout=10) as client:
            client.login("user", "pass:word")
            client.sendmail("a@x", ["b@x"], message("known", ""))
        for path in ("", "messages.json", "?x"):
            assert not answers(f"http://127.0.0.1:{web}/{path}")
            assert not answers(f"http://127.0.0.1:{web}/{path}", login=("user", "other"))
            assert answers(f"http://127.0.0.1:{web}/{path}", login=("user", "pass:word"))
        (mail,) = get_json(f"http://127.0.0.1:{web}/messages.json", login=("user", "pass:word"))
        assert mail["subject"] == "known"
    finally:
        stop()
