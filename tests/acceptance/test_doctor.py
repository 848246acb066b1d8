"""`reconciler doctor`: what is set and whether each dependency answers, without its secrets."""

from pathlib import Path

from tests.acceptance.commands import reconciler
from tests.faults.house import House, variables
from tests.support.postgres import Database

HIDDEN = "hunter2"


async def test_doctor_finds_everything_well(house: House) -> None:
    ended = await reconciler("doctor", settings=house.settings())
    assert ended.code == 0, ended.text
    for dependency in ("postgres", "kafka", "psp"):
        assert f"{dependency:<9} well" in ended.out
    assert "RECONCILER_LEASE__TTL_SECONDS" in ended.out


async def test_doctor_names_each_dependency_that_does_not_answer_and_no_password() -> None:
    settings = variables(
        DATABASE__URL=f"postgresql://reconciler:{HIDDEN}@127.0.0.1:1/payments",
        KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:1",
        KAFKA__SECURITY_PROTOCOL="SASL_PLAINTEXT",
        KAFKA__SASL_MECHANISM="PLAIN",
        KAFKA__SASL_USERNAME="reconciler",
        KAFKA__SASL_PASSWORD=HIDDEN,
        PSP__BASE_URL="http://127.0.0.1:1",
    )
    ended = await reconciler("doctor", settings=settings)
    assert ended.code == 1
    for dependency in ("postgres", "kafka", "psp"):
        assert f"{dependency:<9} FAIL" in ended.out
    assert HIDDEN not in ended.text
    assert "Traceback" not in ended.text


async def test_doctor_tells_that_the_schema_is_missing(
    house: House, empty_database: Database
) -> None:
    ended = await reconciler("doctor", settings=house.settings(DATABASE__URL=empty_database.url))
    assert ended.code == 1
    assert "reconciler migrate" in ended.out


async def test_doctor_names_a_decoder_whose_declaration_cannot_work(tmp_path: Path) -> None:
    file = tmp_path / "adyen.json"
    file.write_text("{}", encoding="utf-8")
    settings = variables(
        DATABASE__URL="postgresql://reconciler@127.0.0.1:1/payments",
        KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:1",
        KAFKA__PSP_DECODER="adyen",
        KAFKA__PSP_DECODER_FILE=str(file),
        PSP__BASE_URL="http://127.0.0.1:1",
    )
    ended = await reconciler("doctor", settings=settings)
    assert ended.code == 1
    assert "decoders  FAIL" in ended.out
    assert "automatic_capture is absent" in ended.out
