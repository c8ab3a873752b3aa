"""Workers and producers for lease-broker, which leases rows of SQL tables to workers."""

from lease_broker.client import AsyncClient, Client
from lease_broker.credentials import Credentials, plaintext, tls
from lease_broker.errors import BatchError, Cancelled, DeadLetter, LeaseBrokerError, Release, Retry
from lease_broker.events import Event
from lease_broker.handlers import Middleware
from lease_broker.item import FollowUp, Item, Result
from lease_broker.leases import Context
from lease_broker.options import QueueOptions
from lease_broker.values import UnknownColumnError
from lease_broker.worker import Worker

__all__ = [
    "AsyncClient",
    "BatchError",
    "Cancelled",
    "Client",
    "Context",
    "Credentials",
    "DeadLetter",
    "Event",
    "FollowUp",
    "Item",
    "LeaseBrokerError",
    "Middleware",
    "QueueOptions",
    "Release",
    "Result",
    "Retry",
    "UnknownColumnError",
    "Worker",
    "plaintext",
    "tls",
]
