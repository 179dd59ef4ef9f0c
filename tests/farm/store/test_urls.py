import ssl

import pytest

from engine.contract.errors import ConfigError, StoreError
from farm.store import Store
from farm.store.urls import connection, parse
from tests.farm.redis_tls import Authority


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+pg8000"])
def test_postgresql_is_spoken_with_the_driver_that_comes_along(scheme):
    assert parse(f"{scheme}://u:p@h/d").drivername == "postgresql+pg8000"


def test_other_databases_keep_their_driver():
    url = parse("sqlite:////x/y.db")
    assert connection(url) == (url, {})


@pytest.mark.parametrize(
    ("mode", "checked", "host"),
    [
        ("require", ssl.CERT_NONE, False),
        ("verify-ca", ssl.CERT_REQUIRED, False),
        ("verify-full", ssl.CERT_REQUIRED, True),
    ],
)
def test_tls_in_the_words_of_libpq(mode, checked, host):
    plain, arguments = connection(parse(f"postgresql://u@h/d?sslmode={mode}"))
    context = arguments["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (checked, host)
    assert not plain.query


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sslmode=prefer", "sslmode 'prefer'(.|\n)*next: one of disable"),
        ("sslmode=require&sslrootcert=/absent", "/absent"),
    ],
)
def test_what_cannot_be_is_told(query, words):
    with pytest.raises(ConfigError, match=words):
        Store(f"postgresql://u:secret@127.0.0.1:1/d?{query}").open()


@pytest.mark.postgres
def test_a_server_with_tls_is_checked(postgres, tmp_path, monkeypatch):
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs", "somebody else")
    with postgres.with_tls(*ours.issue("127.0.0.1")):
        url = postgres.url()
        with Store(f"{url}?sslmode=verify-full&sslrootcert={ours.file}") as store, store.read() as session:
            assert (
                session.connection()
                .exec_driver_sql("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
                .scalar()
            )
        with pytest.raises(StoreError, match="certificate verify failed") as caught:
            Store(f"{url}?sslmode=verify-full&sslrootcert={theirs.file}").open()
        assert postgres.password not in str(caught.value)
        postgres.drop(url)


@pytest.mark.postgres
def test_a_wrong_password_and_an_absent_server_are_told_without_it(postgres):
    wrong = f"postgresql://lockstep:hunter2-hunter2@127.0.0.1:{postgres.port}/postgres"
    with pytest.raises(
        StoreError, match=r"store postgresql\+pg8000://lockstep:\*\*\*@.*password authentication"
    ) as caught:
        Store(wrong).open()
    assert "hunter2" not in str(caught.value)
    with pytest.raises(StoreError, match="Can't create a connection") as caught:
        Store("postgresql://lockstep:hunter2-hunter2@127.0.0.1:1/postgres").open()
    assert "hunter2" not in str(caught.value)
