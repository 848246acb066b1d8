"""The listeners of a test's Kafka: where each binds, what it tells its clients, what it demands."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from service.sandbox.ports import LOOPBACK, free_port


@dataclass(frozen=True, kw_only=True)
class Listener:
    """One door of the broker; `settings` are Kafka's names below `listener.name.<name>.`.

    `advertised` is the address that clients are sent to after they have bootstrapped, without one
    the listener's own.
    """

    name: str
    protocol: str = "PLAINTEXT"
    port: int = field(default_factory=free_port)
    advertised: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"


@dataclass(frozen=True)
class Security:
    """Listeners beside the plain one, and the users (user, password) of SCRAM-SHA-512."""

    listeners: Sequence[Listener]
    scram_users: Sequence[tuple[str, str]] = ()


def listener_settings(listeners: Iterable[Listener], controller: Listener) -> dict[str, str]:
    """The lines of server.properties for these listeners; the controller's is told to nobody."""
    doors = list(listeners)
    everyone = [*doors, controller]
    settings = {
        "listeners": ",".join(f"{door.name}://{door.address}" for door in everyone),
        "advertised.listeners": ",".join(
            f"{door.name}://{door.advertised or door.address}" for door in doors
        ),
        "listener.security.protocol.map": ",".join(
            f"{door.name}:{door.protocol}" for door in everyone
        ),
        "controller.listener.names": controller.name,
        "controller.quorum.voters": f"1@{controller.address}",
    }
    for door in doors:
        prefix = f"listener.name.{door.name.lower()}."
        settings |= {prefix + name: value for name, value in door.settings.items()}
    return settings
