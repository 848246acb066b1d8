"""The five addresses of the health port; each only reads what is in memory."""

from datetime import datetime
from typing import Any

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from service import __version__
from service.observe.metrics import Metrics
from service.web.checks import Probe, Status
from service.web.snapshot import Check, HealthBoard, View

_NOT_STORED = {"Cache-Control": "no-store"}


class HealthResponse(JSONResponse):
    """A health body; its status code is for machines."""

    media_type = "application/health+json"


def health_app(board: HealthBoard, metrics: Metrics) -> Starlette:
    """Build the app of the health port: /livez /readyz /startupz /health /metrics."""

    async def livez(_request: Request) -> Response:
        return _response(board.view(Probe.LIVENESS))

    async def readyz(_request: Request) -> Response:
        return _response(board.view(Probe.READINESS))

    async def startupz(_request: Request) -> Response:
        view = board.view(Probe.HEALTH)
        return _response(View(Status.PASS if board.started else Status.FAIL, view.checks))

    async def health(_request: Request) -> Response:
        return _response(board.view(Probe.HEALTH))

    async def exposition(request: Request) -> Response:
        ready = board.view(Probe.READINESS).status is not Status.FAIL
        metrics.process.ready.set(int(ready))
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics.registry), media_type=content_type)

    handlers = (livez, readyz, startupz, health)
    routes = [Route(f"/{handler.__name__}", handler, methods=["GET"]) for handler in handlers]
    app = Starlette(routes=[*routes, Route("/metrics", exposition, methods=["GET"])])
    app.router.redirect_slashes = False
    return app


def _response(view: View) -> HealthResponse:
    checks = {key: [_row(check) for check in rows] for key, rows in view.checks.items()}
    body = {"status": view.status.text, "version": __version__, "checks": checks}
    code = 503 if view.status is Status.FAIL else 200
    return HealthResponse(body, status_code=code, headers=_NOT_STORED)


def _row(check: Check) -> dict[str, Any]:
    row = {
        "componentId": check.part,
        "observedValue": check.observed_value,
        "observedUnit": check.observed_unit,
        "status": check.status.text,
        "time": _rfc3339(check.time),
        "output": check.output,
    }
    return {key: value for key, value in row.items() if value is not None}


def _rfc3339(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
