"""Changes of one row are ordered as their database made them; reads are below all changes."""

from itertools import pairwise
from typing import Any

import pytest

from schemas.refusal import Reason
from schemas.sources.debezium_positions import EPOCH_MAX
from schemas.strict_json import INT64_MAX
from tests.contract.records import refusal_of
from tests.contract.sources.debezium import MYSQL, ORACLE, POSTGRESQL, SQLSERVER, change, decoder
from tests.contract.sources.reading import event, order, read

LATER: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (POSTGRESQL, [{"lsn": 1}, {"lsn": 24023128}, {"lsn": INT64_MAX}]),
    (
        MYSQL,
        [
            {"row": 0},
            {"row": 3},
            {"pos": 485},
            {"pos": 2**32 - 1},
            {"file": "mysql-bin.000004", "pos": 4},
            {"file": "mysql-bin.1000000", "pos": 4},
        ],
    ),
    (
        SQLSERVER,
        [
            {"event_serial_no": "1"},
            {"event_serial_no": "2"},
            {"change_lsn": "00000027:00000ac0:0003", "event_serial_no": None},
            {"change_lsn": "00000027:00000db0:0001"},
            {"change_lsn": "00000028:00000001:0001"},
            {"change_lsn": "ffffffff:ffffffff:ffff", "event_serial_no": "99999"},
        ],
    ),
    (
        ORACLE,
        [
            {"ssn": 0},
            {"ssn": 2},
            {"rs_id": " 0x001234.00012345.0200 "},
            {"rs_id": "001234.00012346.0010"},
            {"scn": "2125545", "rs_id": "001234.00000001.0010"},
            {"scn": 2**48 - 1, "rs_id": "ffffff.ffffffff.ffff", "ssn": 10**9},
        ],
    ),
]
EVERY = pytest.mark.parametrize(
    ("at", "places"), LATER, ids=["postgresql", "mysql", "sqlserver", "oracle"]
)


@EVERY
def test_later_change_has_the_higher_version(
    at: dict[str, Any], places: list[dict[str, Any]]
) -> None:
    versions = order(decoder(), *(change(at={**at, **place}) for place in places))
    assert all(earlier < later for earlier, later in pairwise(versions))
    assert max(number for pair in versions for number in pair) <= INT64_MAX


@EVERY
@pytest.mark.parametrize("read_as", ["op", "true", "last", "incremental", "early"])
def test_read_of_a_row_is_below_every_change_whenever_it_arrives(
    at: dict[str, Any], places: list[dict[str, Any]], read_as: str
) -> None:
    """Reported as debezium-server-iceberg 544."""
    late = {**at, **places[-1]}
    snapshot = {"op": False, "early": True}.get(read_as, read_as)
    seen = change("r" if read_as in {"op", "incremental"} else "c", at=late, snapshot=snapshot)
    early = change(at={**at, **places[0]}, snapshot="false")
    first, second = order(decoder(), seen, early)
    assert first < second


@EVERY
def test_raised_epoch_is_above_everything_before(
    at: dict[str, Any], places: list[dict[str, Any]]
) -> None:
    last = event(decoder(epoch=6), change(at={**at, **places[-1]}))
    seen = event(decoder(epoch=7), change("r", at={**at, **places[0]}))
    assert (seen.epoch, seen.version) > (last.epoch, last.version)
    highest = event(decoder(epoch=EPOCH_MAX), change(at={**at, **places[-1]}))
    assert highest.epoch <= INT64_MAX


def test_repeated_reads_are_ordered_by_position_and_repeated_deliveries_are_equal() -> None:
    versions = order(decoder(), change("r", lsn=10), change("r", lsn=11), change("r", lsn=11))
    assert versions[0] < versions[1] == versions[2]


def test_postgresql_position_is_found_in_the_sequence_too() -> None:
    sequence = '["24023119","24023128"]'
    assert order(decoder(), change(lsn=None, sequence=sequence)) == order(decoder(), change())
    refused = refusal_of(lambda: read(decoder(), change(lsn=None, sequence='["1",null]')))
    assert refused is not None
    assert refused.reason is Reason.MISSING_FIELD


def test_read_of_sql_server_is_placed_by_its_commit() -> None:
    seen = change("r", at={**SQLSERVER, "change_lsn": None, "event_serial_no": None})
    assert order(decoder(), seen)[0] < order(decoder(), change(at=SQLSERVER))[0]


@pytest.mark.parametrize(
    ("at", "field"),
    [
        ({**POSTGRESQL, "lsn": None}, "source.lsn"),
        ({**POSTGRESQL, "lsn": "x"}, "source.lsn"),
        ({**POSTGRESQL, "lsn": -1}, "source.lsn"),
        ({**POSTGRESQL, "lsn": 1.5}, "source.lsn"),
        ({**POSTGRESQL, "lsn": True}, "source.lsn"),
        ({**MYSQL, "file": None}, "source.file"),
        ({**MYSQL, "file": "mysql-bin"}, "source.file"),
        ({**MYSQL, "file": "mysql-bin.9999999"}, "source.file"),
        ({**MYSQL, "pos": None}, "source.pos"),
        ({**MYSQL, "pos": 2**32}, "source.pos"),
        ({**MYSQL, "row": "x"}, "source.row"),
        ({**SQLSERVER, "change_lsn": None}, "source.change_lsn"),
        ({**SQLSERVER, "change_lsn": "27:ac0:2"}, "source.change_lsn"),
        ({**SQLSERVER, "change_lsn": 1}, "source.change_lsn"),
        ({**ORACLE, "scn": None}, "source.scn"),
        ({**ORACLE, "scn": 2**48}, "source.scn"),
        ({**ORACLE, "rs_id": "x"}, "source.rs_id"),
        ({**ORACLE, "connector": "db2"}, "source.connector"),
        ({**ORACLE, "connector": []}, "source.connector"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_position_that_cannot_be_ordered_is_refused(at: dict[str, Any], field: str) -> None:
    refused = refusal_of(lambda: read(decoder(), change(at=at)))
    assert refused is not None
    assert refused.field == field
