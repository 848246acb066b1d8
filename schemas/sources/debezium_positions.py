"""Where a change stands in its database's log, as epoch and version that order it rightly.

What has to be ordered is one row's changes. A database lets the next transaction change a row only
after the last one has ended, so the position of the change in the log orders them; the position
of the commit is not needed, and would not tell two changes within one transaction apart.

A snapshot read (`op` r, or `source.snapshot` set, incremental snapshots included) is a look at
the row, not a change: its position may lie above that of a change that it did not see, since a
transaction writes its changes before it commits. So every read is below every change of the same
declared epoch, and reads are ordered among themselves by position:

    rank = 2 * declared epoch + (1 for a change, 0 for a read)

| connector | epoch | version |
|---|---|---|
| postgresql | rank | `lsn` |
| mysql, mariadb | rank | binlog file number (21 bits), `pos` (32), `row` (10) |
| sqlserver | rank, log file of `change_lsn` (32 bits) | its block (32), slot (16), serial (15) |
| oracle | rank, `scn` (48 bits) | of `rs_id`: block (32), offset (16); `ssn` (15) |

A read of SQL Server has no `change_lsn`: its `commit_lsn` is taken. Oracle without `rs_id`
(XStream, OpenLogReplicator) leaves two changes of one SCN equal: a conflict, which is seen.
The lowest parts (`row`, serial, `ssn`) stop at their highest value, for the same end.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from schemas.refusal import Reason, Refused
from schemas.strict_json import INT64_MAX, parse

EPOCH_MAX: Final = (1 << 14) - 1

_FILE_NUMBER = re.compile(r"\.([0-9]{1,10})$", re.ASCII)
_SQL_SERVER_LSN = re.compile(r"([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})", re.ASCII)
_ORACLE_RS_ID = re.compile(
    r"\s*(?:0x)?[0-9a-fA-F]{1,8}\.([0-9a-fA-F]{1,8})\.([0-9a-fA-F]{1,4})\s*", re.ASCII
)
_NOT_SNAPSHOT: Final = (None, False, "false")


class Position(NamedTuple):
    """A change's place in its log: (epoch, version) of the contract; higher is later."""

    epoch: int
    version: int


def position_of(source: Mapping[str, Any], *, op: str, epoch: int) -> Position:
    """The position in a `source` block. `epoch` is the declared one, 0 to EPOCH_MAX.

    Raises Refused: missing_field, unknown_value for a connector without a total order, and
    integer_range.
    """
    connector = source.get("connector")
    if connector is None:
        remedy = "required; Debezium writes it, keep the source block whole"
        raise Refused(Reason.MISSING_FIELD, "source.connector", remedy)
    read = _READERS.get(connector) if isinstance(connector, str) else None
    if read is None:
        remedy = (
            f"ordered are {', '.join(_READERS)}; let the source publish the own contract "
            "with a version that it counts"
        )
        raise Refused(Reason.UNKNOWN_VALUE, "source.connector", remedy, value=connector)
    return read(source, 2 * epoch + (not is_snapshot(source, op)))


def is_snapshot(source: Mapping[str, Any], op: str) -> bool:
    """Whether a row was read and not changed; old connectors send reads as `op` c."""
    return op == "r" or source.get("snapshot") not in _NOT_SNAPSHOT


def _postgresql(source: Mapping[str, Any], rank: int) -> Position:
    lsn = source.get("lsn")
    if lsn is None:
        lsn = _sequence_lsn(source.get("sequence"))
    return Position(rank, _number(lsn, "source.lsn", INT64_MAX))


def _sequence_lsn(sequence: Any) -> Any:
    """The second of `["last commit","this change"]`, where a release leaves `lsn` out."""
    if not isinstance(sequence, str):
        return None
    pair = parse(sequence.encode(errors="replace"), field="source.sequence")
    return pair[1] if isinstance(pair, list) and len(pair) == 2 else None


def _mysql(source: Mapping[str, Any], rank: int) -> Position:
    file, field = source.get("file"), "source.file"
    match = _FILE_NUMBER.search(file) if isinstance(file, str) else None
    if match is None:
        remedy = "give the binlog file with its number, such as mysql-bin.000003"
        raise Refused(_absent_or_unknown(file), field, remedy, value=file)
    number = _number(match[1], field, (1 << 21) - 1)
    place = _number(source.get("pos"), "source.pos", (1 << 32) - 1)
    return Position(rank, number << 42 | place << 10 | _low(source, "row", bits=10))


def _sqlserver(source: Mapping[str, Any], rank: int) -> Position:
    name = "commit_lsn" if source.get("change_lsn") is None else "change_lsn"
    if name == "commit_lsn" and rank % 2:
        raise Refused(Reason.MISSING_FIELD, "source.change_lsn", "required; it orders the changes")
    lsn = source.get(name)
    match = _SQL_SERVER_LSN.fullmatch(lsn) if isinstance(lsn, str) else None
    if match is None:
        remedy = "give it as 00000027:00000ac0:0002"
        raise Refused(_absent_or_unknown(lsn), f"source.{name}", remedy, value=lsn)
    file, block, slot = (int(part, 16) for part in match.groups())
    if block >> 32 or slot >> 16 or block >= 1 << 32:
        raise Refused(Reason.INTEGER_RANGE, f"source.{name}", "out of range", value=lsn)
    serial = _low(source, "event_serial_no", bits=15)
    return Position(rank << 32 | file, block << 31 | slot << 15 | serial)


def _oracle(source: Mapping[str, Any], rank: int) -> Position:
    scn = _number(source.get("scn"), "source.scn", (1 << 48) - 1)
    epoch, rs_id = rank << 48 | scn, source.get("rs_id")
    if rs_id is None:
        return Position(epoch, 0)
    match = _ORACLE_RS_ID.fullmatch(rs_id) if isinstance(rs_id, str) else None
    if match is None:
        remedy = "give it as 001234.00012345.0124"
        raise Refused(Reason.UNKNOWN_VALUE, "source.rs_id", remedy, value=rs_id)
    block, offset = int(match[1], 16), int(match[2], 16)
    return Position(epoch, block << 31 | offset << 15 | _low(source, "ssn", bits=15))


def _number(value: Any, field: str, highest: int) -> int:
    """A whole number from 0 to `highest`, as a number or its digits. Raises Refused."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if type(value) is not int:
        remedy = "required as the version: a whole number"
        raise Refused(_absent_or_unknown(value), field, remedy, value=value)
    if not 0 <= value <= highest:
        raise Refused(Reason.INTEGER_RANGE, field, f"give 0 to {highest}", value=value)
    return value


def _low(source: Mapping[str, Any], name: str, *, bits: int) -> int:
    value = source.get(name)
    highest = (1 << bits) - 1
    if value is None:
        return 0
    return min(_number(value, f"source.{name}", INT64_MAX), highest)


def _absent_or_unknown(value: Any) -> Reason:
    return Reason.MISSING_FIELD if value is None else Reason.UNKNOWN_VALUE


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], int], Position]]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
    "sqlserver": _sqlserver,
    "oracle": _oracle,
}
