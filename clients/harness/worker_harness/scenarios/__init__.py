"""The scenarios, by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from worker_harness.cell import Cell
from worker_harness.scenarios import (
    batches,
    blocked,
    broker_killed,
    failures,
    frozen_broker,
    graceful_stop,
    heartbeats,
    hosts_that_move,
    late_stop,
    lease_lost,
    locked_row,
    long_poll,
    lost_claim_replies,
    lost_complete_replies,
    network,
    newer_service,
    no_prefetch,
    plain,
    poison,
    raising_callbacks,
    refused_checkpoints,
    rejected_starts,
    results,
    rolling_restart,
    rotated_certificates,
    stuck,
    throughput,
)


@dataclass(frozen=True)
class Scenario:
    """A row of the matrix."""

    name: str
    run: Callable[[Cell], None]
    alone: bool = False
    """True: no other cell runs at the same time, because the scenario measures speed."""


SCENARIOS = {
    1: Scenario("plain", plain.run),
    2: Scenario("batches", batches.run),
    3: Scenario("no prefetch", no_prefetch.run),
    4: Scenario("long poll", long_poll.run),
    5: Scenario("failures", failures.run),
    6: Scenario("results", results.run),
    7: Scenario("heartbeats", heartbeats.run),
    8: Scenario("blocked", blocked.run),
    9: Scenario("lease lost", lease_lost.run),
    10: Scenario("lost claim replies", lost_claim_replies.run),
    11: Scenario("lost complete replies", lost_complete_replies.run),
    12: Scenario("broker killed", broker_killed.run),
    13: Scenario("rolling restart", rolling_restart.run),
    14: Scenario("graceful stop", graceful_stop.run),
    15: Scenario("stop beyond the grace", late_stop.run),
    16: Scenario("stuck handlers", stuck.run),
    17: Scenario("network", network.run),
    18: Scenario("throughput", throughput.run, alone=True),
    19: Scenario("refused checkpoints", refused_checkpoints.run),
    20: Scenario("newer service", newer_service.run),
    21: Scenario("rotated certificates", rotated_certificates.run),
    22: Scenario("hosts that move", hosts_that_move.run),
    23: Scenario("frozen broker", frozen_broker.run),
    24: Scenario("rejected starts", rejected_starts.run),
    25: Scenario("raising callbacks", raising_callbacks.run),
    26: Scenario("poison", poison.run),
    27: Scenario("locked row", locked_row.run),
}
