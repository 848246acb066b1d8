"""The AsyncAPI 3.0 document: which topics there are, who sends, and what a record looks like."""

from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from schemas.events import MODELS, PAYMENT_ID_CHARACTERS_MAX
from schemas.outcome import OutcomeEvent
from schemas.record import STRUCTURED_TYPE

_KAFKA_BINDING: Final = "0.5.0"
_REF: Final = "#/components/schemas/{model}"

# Channel -> what it carries, and whether the reconciler receives or sends there.
_CHANNELS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "erp.payments": (
        "What the ERP says of payments.",
        "receive",
        ("ErpSnapshotEvent", "ErpPatchEvent"),
    ),
    "psp.payments": (
        "What the PSP says of payments.",
        "receive",
        ("PspSnapshotEvent", "PspPatchEvent"),
    ),
    "reconciler.payments": (
        "Every visible change of a payment; at least once, in order a payment.",
        "send",
        ("OutcomeEvent",),
    ),
    "reconciler.dead-letters": (
        "Copies of the records that were refused, with their bytes.",
        "send",
        ("DeadLetter",),
    ),
}


def asyncapi_document(generator: type[GenerateJsonSchema]) -> dict[str, Any]:
    """The document; topic names are the defaults, they are settings of the service."""
    models = [*MODELS.values(), OutcomeEvent]
    _, schema = models_json_schema(
        [(model, "validation") for model in models],
        ref_template=_REF,
        schema_generator=generator,
    )
    messages = {model.__name__: _event_message(model.__name__) for model in models}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "payment-reconciler",
            "version": "1.0.0",
            "description": "CloudEvents 1.0 on Kafka, structured or binary mode. "
            "Topic names are the defaults.",
        },
        "defaultContentType": STRUCTURED_TYPE,
        "channels": {name: _channel(name) for name in _CHANNELS},
        "operations": {_operation_name(name): _operation(name) for name in _CHANNELS},
        "components": {
            "messages": {**messages, "DeadLetter": _dead_letter_message()},
            "schemas": schema["$defs"],
        },
    }


def _channel(name: str) -> dict[str, Any]:
    description, _, messages = _CHANNELS[name]
    return {
        "address": name,
        "description": description,
        "messages": {message: {"$ref": f"#/components/messages/{message}"} for message in messages},
        "bindings": {"kafka": {"topic": name, "bindingVersion": _KAFKA_BINDING}},
    }


def _operation(name: str) -> dict[str, Any]:
    _, action, messages = _CHANNELS[name]
    channel = f"#/channels/{name}"
    return {
        "action": action,
        "channel": {"$ref": channel},
        "messages": [{"$ref": f"{channel}/messages/{message}"} for message in messages],
    }


def _operation_name(name: str) -> str:
    action = _CHANNELS[name][1]
    return action + "".join(part.capitalize() for part in name.replace("-", ".").split("."))


def _event_message(model: str) -> dict[str, Any]:
    return {
        "name": model,
        "contentType": STRUCTURED_TYPE,
        "payload": {"$ref": _REF.format(model=model)},
        "bindings": _message_binding(),
    }


def _dead_letter_message() -> dict[str, Any]:
    return {
        "name": "DeadLetter",
        "summary": "The refused record's key, value and headers as they came, and the reason "
        "in the headers that Kafka Connect and Spring use.",
        "contentType": "application/octet-stream",
        "payload": {"description": "The refused value's bytes; of an oversized one the first MiB."},
        "bindings": _message_binding(),
    }


def _message_binding() -> dict[str, Any]:
    key = {
        "type": "string",
        "minLength": 1,
        "maxLength": PAYMENT_ID_CHARACTERS_MAX,
        "description": "The payment id.",
    }
    return {"kafka": {"key": key, "bindingVersion": _KAFKA_BINDING}}
