import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from engine.contract.errors import ConfigError, StoreError
from farm import leases
from farm.jobs import RunSpec
from farm.store import Store, create_run, database
from farm.store.database import HEAD, MIGRATIONS
from farm.store.models import Base, DeviceEventRow, RunRow


def test_migrations_from_nothing_give_the_tables_of_the_models(fresh_url):
    with Store(fresh_url) as store, store.read() as session:
        context = MigrationContext.configure(session.connection())
        assert compare_metadata(context, Base.metadata) == []
        assert context.get_current_revision() == HEAD


def test_head_is_the_newest_migration():
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_many_openers_at_once_migrate_once(fresh_url):
    together = threading.Barrier(8)

    def open_and_count(_):
        together.wait()
        with Store(fresh_url) as store, store.read() as session:
            return session.connection().exec_driver_sql("SELECT count(*) FROM jobs").scalar()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(open_and_count, range(8))) == [0] * 8


def test_the_first_openers_at_once_do_not_refuse_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_upgrade", lambda engine: None)  # the race is before it
    ready = threading.Barrier(6)

    def open_at_once(path):
        ready.wait(60)
        Store(f"sqlite:///{path}").open().close()

    with ThreadPoolExecutor(6) as pool:
        for number in range(60):  # a race: each round is one chance to lose it
            list(pool.map(open_at_once, [tmp_path / f"{number}.db"] * 6))


def test_writers_at_once_wait_for_each_other(fresh_url):
    def take_and_free(number):
        with Store(fresh_url) as store:
            for _ in range(10):
                with store.write() as session:
                    lease = leases.acquire(session, "d", f"w{number}", 10, 0.0)
                    leases.release(session, "d", lease.token)
            return lease.token

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(take_and_free, range(4))) == 40


def test_a_store_of_a_newer_lockstep_is_refused(fresh_url):
    with Store(fresh_url) as store, store.write() as session:
        session.connection().exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match=r"was written by a newer Lockstep(.|\n)*next: update this checkout"):
        Store(fresh_url).open()


def test_a_failed_transaction_leaves_nothing(store):
    def half_broken():
        with store.write() as session:
            session.connection().exec_driver_sql("INSERT INTO leases VALUES ('d', 1, 'a', 0)")
            session.connection().exec_driver_sql("INSERT INTO absent VALUES (1)")

    with pytest.raises(StoreError, match=r"no such table: absent|relation \"absent\" does not exist"):
        half_broken()
    with store.read() as session:
        assert session.connection().exec_driver_sql("SELECT count(*) FROM leases").scalar() == 0


def test_readers_do_not_wait_for_a_writer(store):
    with store.write() as writer, store.read() as reader:
        writer.connection().exec_driver_sql("INSERT INTO leases VALUES ('d', 1, 'a', 0)")
        assert reader.connection().exec_driver_sql("SELECT count(*) FROM leases").scalar() == 0


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "LOCKSTEP_STORE_URL: not a database URL"),
        ("nodatabase://u:secret@h/x", "no driver for this database"),
    ],
)
def test_urls_that_cannot_be_are_configuration_errors(url, words):
    with pytest.raises(ConfigError, match=words) as caught:
        Store(url).open()
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_told(tmp_path):
    path = tmp_path / "lockstep.db"
    path.write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        Store(f"sqlite:///{path}").open()


def test_a_store_that_is_not_open_says_so(fresh_url):
    with pytest.raises(StoreError, match="not open"), Store(fresh_url).read():
        pass


@pytest.mark.parametrize("text", ["nul \0 in it", "half a pair \udc80", "plain", "é", "/a/path/" * 100 + "suite.yaml"])
def test_every_database_takes_any_text_from_outside(store, text):
    run = create_run(store, RunSpec(suite=text, engine=text, command=text, owner=text), [])
    with store.write() as session:
        row = session.get_one(RunRow, run)
        assert len(row.command) == len(text)
        assert row.suite == row.engine == row.owner == row.command[-255:]
        if text.isprintable():
            assert row.command == text
        session.add(DeviceEventRow(device="d", at=0.0, kind="k", before="", after="", actor=text, reason=text))
