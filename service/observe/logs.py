"""One stream of logs: JSON for machines, colours for a person, secrets and card numbers for none.

structlog and the standard library's loggers (uvicorn, aiokafka, asyncio) end in the same handler,
so that nothing is printed past the redaction. Logs go to stderr: stdout belongs to commands.
"""

import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from service.observe.redaction import mask_text, redact

# At DEBUG it writes whole requests, and one of them holds the password.
_TELLTALE = "aiokafka.conn"
_NOISY = ("aiokafka", "alembic", "asyncio", "kafka", "uvicorn")

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
Form = Literal["auto", "json", "console"]


def configure_logs(level: Level, form: Form, *, stream: TextIO | None = None) -> None:
    """Route every logger of the process to `stream` (stderr), masked.

    `form` auto means console on a terminal and JSON elsewhere. Libraries that tell of every record
    at INFO are kept at WARNING unless `level` is DEBUG.
    """
    target = stream or sys.stderr
    console = form == "console" or (form == "auto" and target.isatty())
    handler = logging.StreamHandler(target)
    handler.setFormatter(_formatter(console=console, colors=console and target.isatty()))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "DEBUG" else logging.WARNING)
    logging.getLogger(_TELLTALE).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *_common(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def redaction(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Mask secrets and card numbers in every value of the event, exception text included."""
    return {
        mask_text(key): held if key == "timestamp" else redact(key, held)
        for key, held in event.items()
    }


def _common() -> list[Processor]:
    return [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _formatter(*, console: bool, colors: bool) -> logging.Formatter:
    renderer: Processor
    if console:
        # The plain formatter: others print the local variables of every frame.
        renderer = structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
    else:
        renderer = structlog.processors.JSONRenderer()
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_common(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            redaction,
            renderer,
        ],
    )
