import pytest

from tfagents_system.core.display import printable, printable_lines, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("return 1.5 ▁▃█ … é 中", "return 1.5 ▁▃█ … é 中"),
        ("a\x1b[31;1mred\x1b[0m", "ared"),
        ("\x9b31mred", "red"),
        ("x\x1b]0;a title\x07y", "xy"),
        ("x\x1b]8;;http://e\x1b\\y", "xy"),
        ("x\x1b]52;c;cm0gLXJm", "x"),  # into the clipboard; never ended
        ("x\x1bPq\x1b\\y", "xy"),
        ("\x1bcx\x1b7y\x1b(Bz", "xyz"),
        ("a\x07\x08\x7f\x00\x85b", "a b"),
        ("a\tb\nc\rd", "a b c d"),
        ("\u202egnp.exe\u2066", "gnp.exe"),  # shown backwards
        ("na\udcffme", "name"),  # of bytes that are no UTF-8
        ("\x1b", ""),
    ],
)
def test_a_terminal_shows_what_it_would_obey_otherwise(text, shown):
    assert printable(text) == shown


def test_lines_stay_lines():
    assert printable_lines("a\x1b[2J\n\x1b]0;x\nb\r") == "a\n\nb "


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:secret@host/api", "https://host/api"),
        ("https://secret@host:80/x", "https://host:80/x"),
        ("http://:secret@host", "http://host"),
        ("postgresql+psycopg2://u:se/c?re#t@h:5432/db", "postgresql+psycopg2://h:5432/db"),
        ("https://u:sec@ret@h/x", "https://h/x"),
        ("https://u:sec'ret@h/x", "https://h/x"),
        ("mysql://u:12345@h/x", "mysql://h/x"),
        ("GET https://a:b@c/d failed; see http://e:f@g/h.", "GET https://c/d failed; see http://g/h."),
        ("postgresql://h/db?user=x&password=y&a=1", "postgresql://h/db?user=x&password=...&a=1"),
        ("https://h/x?api_key=y", "https://h/x?api_key=..."),
        ("http://host:8080/x@y", "http://host:8080/x@y"),
        ("http://[::1]:80/x@y", "http://[::1]:80/x@y"),
        ("http://host/@scope/x", "http://host/@scope/x"),
        ("sqlite:////a/b@c.db", "sqlite:////a/b@c.db"),
        ("databricks://profile, mail@host", "databricks://profile, mail@host"),
    ],
)  # fmt: skip
def test_urls_are_shown_without_who_logs_in(text, shown):
    assert without_secrets(text) == shown
